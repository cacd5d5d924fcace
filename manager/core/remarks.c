/* A table of fingerprints. Each fingerprint has one possible place in it. */
#include "manager/core/remarks.h"

/* The finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

bool remarks_new(struct remarks *r, int kind, int64_t a, int64_t b, int64_t now_ms)
{
	uint64_t print = mix(mix(mix((uint64_t)kind + 1) ^ (uint64_t)a) ^ (uint64_t)b) | 1;
	uint64_t *place = &r->seen[(print >> 1) % REMARKS_KEPT];
	if (*place == print)
		return false;
	if (now_ms / 1000 != r->second) {
		r->second = now_ms / 1000;
		r->in_second = 0;
	}
	if (r->in_second >= REMARKS_A_SECOND)
		return false;
	r->in_second++;
	*place = print;
	return true;
}
