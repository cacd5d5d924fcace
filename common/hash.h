/*
 * uthash with a keyed hash. Peers choose the keys of most tables (ids, names, incarnations), and uthash's own hash
 * functions have no secret: a peer that computes many keys of one bucket in advance could make every lookup walk all of
 * them. All files include this header instead of uthash.h.
 */
#ifndef REEVE_COMMON_HASH_H
#define REEVE_COMMON_HASH_H

#include "common/mem.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the SipHash-1-3 of some bytes, with a random key that is chosen when the process starts. Any thread. */
uint64_t hash_bytes(const void *bytes, size_t length);

/* Random numbers for hash_key, chosen when the process starts. */
__extension__ typedef unsigned __int128 hash_word;
extern hash_word hash_factor, hash_addend;

/* Returns the hash of a table's key. Keys of eight bytes (such as ids) use multiply-shift, a family of functions in
 * which no two keys, whatever they are, collide more often than by chance (Thorup: High Speed Hashing for Integers and
 * Strings, 2015, section 3.3), for a fraction of SipHash's work. Alone it maps consecutive ids to evenly spaced values;
 * the invertible steps after it mix the bits. Any thread. */
static inline unsigned hash_key(const void *key, size_t length)
{
	uint64_t number;

	if (length != sizeof number)
		return (unsigned)hash_bytes(key, length);
	memcpy(&number, key, sizeof number);
	number = (uint64_t)((hash_factor * number + hash_addend) >> 64);
	number ^= number >> 32;
	return (unsigned)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

#ifdef UTHASH_H
#error "include common/hash.h before, and instead of, uthash.h"
#endif

#define uthash_malloc(size) mem_malloc(size) /* uthash itself would exit() without a message */
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = hash_key(keyptr, keylen))

#include <uthash.h>

#endif
