/*
 * uthash with a keyed hash. Peers choose the keys of most tables (ids, names, incarnations), and the hash functions that
 * come with uthash have no secret: somebody who computes keys of one bucket beforehand makes every look-up walk all of
 * them. All files include this header instead of uthash.h.
 */
#ifndef REEVE_COMMON_HASH_H
#define REEVE_COMMON_HASH_H

#include "common/mem.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* SipHash-1-3 of some bytes, under a key that is chosen at random when the process starts. Any thread. */
uint64_t hash_bytes(const void *bytes, size_t length);

/* Chosen at random when the process starts. */
__extension__ typedef unsigned __int128 hash_word;
extern hash_word hash_factor, hash_addend;

/* Keys of a table. Those of eight bytes (ids, and what is as short) by multiply-shift, a family of functions in which no two
 * keys meet more often than by chance, whatever they are (Thorup: High Speed Hashing for Integers and Strings, 2015, section
 * 3.3); a fraction of the work of SipHash. Alone it leaves ids in a row in a row; what follows it, one to one, mixes them. Any
 * thread. */
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

#define uthash_malloc(size) mem_malloc(size) /* uthash itself would exit(), without a word */
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = hash_key(keyptr, keylen))

#include <uthash.h>

#endif
