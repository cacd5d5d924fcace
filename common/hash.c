/* SipHash with one round per word and three at the end (Aumasson, Bernstein: SipHash, a fast short-input PRF, 2012). */
#include "common/hash.h"

#include "common/log.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct state {
	uint64_t a, b, c, d;
};

hash_word hash_factor, hash_addend;
static uint64_t secret[2];

static bool random_fill(void *to, size_t length)
{
	ssize_t got;

	do
		got = getrandom(to, length, 0);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)length;
}

/* Chooses the keys. Runs before main, so that all threads use the same ones. */
__attribute__((constructor)) static void choose_secret(void)
{
	if (random_fill(secret, sizeof secret) && random_fill(&hash_factor, sizeof hash_factor) &&
	    random_fill(&hash_addend, sizeof hash_addend))
		return;
	log_error(NULL, "no random numbers from the system: %s", strerror(errno));
	abort();
}

static inline uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void mix(struct state *s)
{
	s->a += s->b;
	s->b = rotate(s->b, 13) ^ s->a;
	s->a = rotate(s->a, 32);
	s->c += s->d;
	s->d = rotate(s->d, 16) ^ s->c;
	s->a += s->d;
	s->d = rotate(s->d, 21) ^ s->a;
	s->c += s->b;
	s->b = rotate(s->b, 17) ^ s->c;
	s->c = rotate(s->c, 32);
}

static inline void take_word(struct state *s, uint64_t word)
{
	s->d ^= word;
	mix(s);
	s->a ^= word;
}

uint64_t hash_bytes(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	struct state s = {
	    secret[0] ^ UINT64_C(0x736f6d6570736575),
	    secret[1] ^ UINT64_C(0x646f72616e646f6d),
	    secret[0] ^ UINT64_C(0x6c7967656e657261),
	    secret[1] ^ UINT64_C(0x7465646279746573),
	};
	uint64_t word, last = (uint64_t)length << 56;

	for (; length >= sizeof word; length -= sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		take_word(&s, le64toh(word));
	}
	for (size_t i = 0; i < length; i++)
		last |= (uint64_t)at[i] << 8 * i;
	take_word(&s, last);
	s.c ^= 0xff;
	mix(&s);
	mix(&s);
	mix(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}
