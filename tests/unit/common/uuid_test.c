/* UUIDs: their form, their time, and that they increase. */
#include "common/uuid.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

Test(uuid, has_the_form_of_version_7)
{
	static const uint8_t random[UUID_BYTES] = {1, 2, 3, 4, 5, 6, 0x40, 8, 0x80};
	uint8_t uuid[UUID_BYTES];

	uuid7_make(INT64_C(1700000000123), uuid);
	cr_assert(eq(i64, uuid7_time_ms(uuid), INT64_C(1700000000123)));
	cr_assert(eq(int, memcmp(uuid, "\x01\x8b\xcf\xe5\x68\x7b", 6), 0));
	cr_assert(eq(int, uuid[6] >> 4, 7));
	cr_assert(eq(int, uuid[8] >> 6, 2));
	cr_assert(eq(i64, uuid7_time_ms(random), -1), "version 4");
}

Test(uuid, rises_within_a_millisecond_and_when_the_clock_steps_back)
{
	uint8_t before[UUID_BYTES], after[UUID_BYTES];

	uuid7_make(5000, before);
	for (int i = 0; i < 100000; i++) {
		uuid7_make(i % 2 ? 5000 : 1000, after);
		cr_assert(lt(int, memcmp(before, after, UUID_BYTES), 0));
		memcpy(before, after, UUID_BYTES);
	}
	cr_assert(eq(i64, uuid7_time_ms(after), 5000));
}

/* The check of an id's time uses the actual time of the clock. */
Test(uuid, starts_over_when_the_clock_is_set_back)
{
	uint8_t uuid[UUID_BYTES];

	uuid7_make(INT64_C(1700007200000), uuid);
	uuid7_make(INT64_C(1700000000000), uuid);
	cr_assert(eq(i64, uuid7_time_ms(uuid), INT64_C(1700000000000)));
	uuid7_make(INT64_C(1700007200000), uuid);
	cr_assert(eq(i64, uuid7_time_ms(uuid), INT64_C(1700007200000)));
}

enum { EACH = 20000, THREADS = 4 };

static void *make_many(void *arg)
{
	uint8_t(*uuids)[UUID_BYTES] = arg;

	for (int i = 0; i < EACH; i++)
		uuid7_make(9000, uuids[i]);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, UUID_BYTES);
}

Test(uuid, is_unique_over_threads)
{
	uint8_t(*uuids)[UUID_BYTES] = calloc((size_t)EACH * THREADS, UUID_BYTES);
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, make_many, uuids[i * EACH]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	qsort(uuids, EACH * THREADS, UUID_BYTES, compare);
	for (int i = 1; i < EACH * THREADS; i++)
		cr_assert(lt(int, memcmp(uuids[i - 1], uuids[i], UUID_BYTES), 0));
	free(uuids);
}
