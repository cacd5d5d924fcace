/* Credentials of attempts: nobody makes one without the key of the incarnation. */
#include "common/credential.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(credential);

static const uint8_t master[] = "a key with 32 bytes for the test", other[] = "another key, also with 32 bytes.";

static const struct credential attempt = {7, 12, 345, 1700000000000000};

static size_t write_with(const uint8_t *from, const struct credential *as, char text[CREDENTIAL_BYTES])
{
	uint8_t key[CREDENTIAL_KEY_BYTES];

	credential_key(from, sizeof master, as->identity, as->incarnation, key);
	credential_write(&attempt, key, text);
	return strlen(text);
}

static bool reads(const char *text, struct credential *found)
{
	return credential_read(text, strlen(text), master, sizeof master, found);
}

Test(credential, is_read_as_it_was_written)
{
	char text[CREDENTIAL_BYTES];
	struct credential found;

	cr_assert(write_with(master, &attempt, text) < CREDENTIAL_BYTES - 1);
	cr_assert(credential_is(text, strlen(text)));
	cr_assert(reads(text, &found));
	cr_assert(eq(i64, found.identity, 7));
	cr_assert(eq(i64, found.incarnation, 12));
	cr_assert(eq(i64, found.task_id, 345));
	cr_assert(eq(i64, found.token, 1700000000000000));
	cr_assert(not(credential_is("reeve_1_x", 9)));
}

Test(credential, that_is_changed_anywhere_is_refused)
{
	char text[CREDENTIAL_BYTES];
	struct credential found;
	size_t length = write_with(master, &attempt, text);

	for (size_t i = 0; i < length; i++) {
		char was = text[i];
		text[i] = was == '1' ? '2' : '1';
		cr_assert(not(reads(text, &found)), "with a change at %zu", i);
		text[i] = was;
	}
	cr_assert(reads(text, &found));
	for (size_t shorter = 0; shorter < length; shorter++)
		cr_assert(not(credential_read(text, shorter, master, sizeof master, &found)));
}

Test(credential, needs_the_key_of_its_incarnation)
{
	static const struct credential as[] = {{7, 13, 0, 0}, {8, 12, 0, 0}, {0, 12, 0, 0}};
	char text[CREDENTIAL_BYTES];
	struct credential found;

	for (size_t i = 0; i < sizeof as / sizeof *as; i++) {
		write_with(master, &as[i], text);
		cr_assert(not(reads(text, &found)));
	}
	write_with(other, &attempt, text);
	cr_assert(not(reads(text, &found)));
	/* A database without a key knows none. */
	write_with(master, &attempt, text);
	cr_assert(not(credential_read(text, strlen(text), (const uint8_t *)"", 0, &found)));
}
