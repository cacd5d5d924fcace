/* Hash tables whose keys a peer chooses: a peer must not be able to choose keys that share a bucket. */
#include "common/hash.h"

#include "../worker/program.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 4000, BITS = 10 };

struct item {
	int64_t id;
	UT_hash_handle hh;
};

/* Returns the next id after `id` whose stock hash of uthash ends in zeros: in a table of up to 2^BITS buckets all such
 * ids share one. */
static int64_t next_chosen(int64_t id)
{
	unsigned hash;

	do {
		id++;
		HASH_JEN(&id, sizeof id, hash);
	} while (hash & ((1U << BITS) - 1));
	return id;
}

static unsigned longest_chain(const struct item *items)
{
	const UT_hash_table *table = items->hh.tbl;
	unsigned longest = 0;

	for (unsigned i = 0; i < table->num_buckets; i++)
		if (table->buckets[i].count > longest)
			longest = table->buckets[i].count;
	return longest;
}

static void free_items(struct item *items)
{
	struct item *item, *next;

	HASH_ITER (hh, items, item, next) {
		HASH_DEL(items, item);
		free(item);
	}
}

Test(hash, spreads_ids_that_share_a_bucket_under_the_stock_hash)
{
	struct item *items = NULL, *item;
	int64_t id = 0;

	for (int i = 0; i < ITEMS; i++) {
		item = calloc(1, sizeof *item);
		item->id = id = next_chosen(id);
		HASH_ADD(hh, items, id, sizeof item->id, item);
	}
	/* A table of this size has on average 10 items in a bucket at most; 40 in one bucket are no coincidence. */
	cr_assert(lt(int, (int)longest_chain(items), 40));
	id = 0;
	for (int i = 0; i < ITEMS; i++) {
		id = next_chosen(id);
		HASH_FIND(hh, items, &id, sizeof id, item);
		cr_assert(item && item->id == id);
	}
	free_items(items);
}

/* Consecutive ids, and ids far apart: in each table, about as many share a bucket as with random ids. */
Test(hash, spreads_ids_in_any_row)
{
	for (int shift = 0; shift < 50; shift++) {
		struct item *items = NULL, *item;

		for (int64_t i = 1; i <= ITEMS; i++) {
			item = calloc(1, sizeof *item);
			item->id = i << shift;
			HASH_ADD(hh, items, id, sizeof item->id, item);
		}
		cr_assert(lt(int, (int)longest_chain(items), 40), "steps of 2^%d", shift);
		free_items(items);
	}
}

/* On average, half of the 64 bits must change when one bit of the key changes. */
Test(hash, changes_half_its_bits_with_each_bit_of_the_key)
{
	uint8_t key[24];

	for (size_t length = 1; length <= sizeof key; length++) {
		long differing = 0;

		memset(key, 7, sizeof key);
		for (size_t bit = 0; bit < 8 * length; bit++) {
			uint64_t before = hash_bytes(key, length);

			key[bit / 8] ^= (uint8_t)(1 << bit % 8);
			differing += __builtin_popcountll(before ^ hash_bytes(key, length));
		}
		differing /= (long)(8 * length);
		cr_assert(differing > 22 && differing < 42, "%ld bits differ with keys of %zu bytes", differing, length);
	}
}

Test(hash, distinguishes_keys_of_different_length)
{
	static const uint8_t zeros[16];

	for (size_t i = 0; i < sizeof zeros; i++)
		for (size_t j = 0; j < i; j++)
			cr_assert(hash_bytes(zeros, i) != hash_bytes(zeros, j));
}

/* Starts a program that prints two hashes, and reads them. */
static void hashes_of_a_process(char bytes[32], char number[32])
{
	char path[] = "/tmp/reeve-hashes.XXXXXX";
	int fd = mkstemp(path);
	FILE *file;

	cr_assert(fd >= 0);
	cr_assert(eq(int, wait_program(start_named("print-hashes", (const char *const[]){NULL}, path)), 0));
	file = fdopen(fd, "r");
	cr_assert(file && fscanf(file, "%31s %31s", bytes, number) == 2);
	fclose(file);
	unlink(path);
}

/* A peer that knew the key would know the buckets. */
Test(hash, has_another_key_in_each_process)
{
	char bytes[2][32], number[2][32];

	for (int i = 0; i < 2; i++)
		hashes_of_a_process(bytes[i], number[i]);
	cr_assert(ne(str, bytes[0], bytes[1]), "of bytes: a name");
	cr_assert(ne(str, number[0], number[1]), "of eight bytes: an id");
}

/* A file that includes uthash itself has tables with the stock hash. */
Test(hash, is_that_of_all_tables)
{
	char command[1024], found[512] = "";
	FILE *grep;

	snprintf(command, sizeof command, "cd '%s' && grep -rl '#include [<\"]uthash.h' common manager worker client bench",
	    PROJECT_FOLDER);
	grep = popen(command, "r");
	cr_assert(grep && fread(found, 1, sizeof found - 1, grep) > 0);
	pclose(grep);
	cr_assert(eq(str, found, "common/hash.h\n"));
}
