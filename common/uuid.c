/*
 * Version 7 UUIDs: 48 bits of milliseconds, then 74 bits that start at a random value in each millisecond and grow by
 * random steps within it, so that the ids of one process increase and the ids of two processes do not collide. If the
 * time goes back by more than BACK_MS, the clock was set: the ids restart at the new time, since their time must follow
 * the clock.
 */
#include "common/uuid.h"

#include <pthread.h>
#include <sys/random.h>

enum { BACK_MS = 10000 };

#define MS_MASK ((INT64_C(1) << 48) - 1)

/* The last id: its time, and its 74 bits as 12 (rand_a) and 62 (rand_b). */
static struct {
	pthread_mutex_t lock;
	int64_t ms;
	uint64_t high, low;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER, .ms = -1};

static uint64_t random_bits(int count)
{
	uint64_t value;

	/* getrandom returns up to 256 bytes completely or not at all, and waits only during early boot. */
	while (getrandom(&value, sizeof value, 0) != sizeof value)
		;
	return value >> (64 - count);
}

void uuid7_make(int64_t unix_ms, uint8_t uuid[UUID_BYTES])
{
	if (unix_ms < 0)
		unix_ms = 0;
	pthread_mutex_lock(&last.lock);
	if (unix_ms > last.ms || unix_ms < last.ms - BACK_MS) {
		last.ms = unix_ms;
		/* The top bit stays free, which leaves room for 2³³ steps within one millisecond. */
		last.high = random_bits(11);
		last.low = random_bits(62);
	} else {
		last.low += random_bits(40) + 1;
		last.high += last.low >> 62;
		last.low &= (UINT64_C(1) << 62) - 1;
		if (last.high >> 12) {
			last.ms++;
			last.high = 0;
		}
	}
	int64_t ms = last.ms & MS_MASK;
	uint64_t high = last.high, low = last.low;
	pthread_mutex_unlock(&last.lock);

	for (int i = 0; i < 6; i++)
		uuid[i] = (uint8_t)(ms >> (40 - 8 * i));
	uuid[6] = (uint8_t)(0x70 | high >> 8);
	uuid[7] = (uint8_t)high;
	uuid[8] = (uint8_t)(0x80 | low >> 56);
	for (int i = 0; i < 7; i++)
		uuid[9 + i] = (uint8_t)(low >> (48 - 8 * i));
}

int64_t uuid7_time_ms(const uint8_t uuid[UUID_BYTES])
{
	int64_t ms = 0;

	if (uuid[6] >> 4 != 7 || uuid[8] >> 6 != 2)
		return -1;
	for (int i = 0; i < 6; i++)
		ms = ms << 8 | uuid[i];
	return ms;
}
