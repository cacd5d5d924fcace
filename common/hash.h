/*
 * uthash with a keyed hash. Peers choose the keys of most tables (ids, names, incarnations), and the hash functions that
 * come with uthash have no secret: somebody who computes keys of one bucket beforehand makes every look-up walk all of
 * them. All files include this header instead of uthash.h.
 */
#ifndef REEVE_COMMON_HASH_H
#define REEVE_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-1-3 of some bytes, under a key that is chosen at random when the process starts. Any thread. */
uint64_t hash_bytes(const void *bytes, size_t length);

#ifdef UTHASH_H
#error "include common/hash.h before, and instead of, uthash.h"
#endif

#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = (unsigned)hash_bytes(keyptr, keylen))

#include <uthash.h>

#endif
