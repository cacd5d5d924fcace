/* The comparison of the hashes of secrets takes as many steps of the processor wherever the first difference is. A
 * debugger counts them, so neither the machine's load nor its clock matter. */
#include "common/access_token.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(constant_time, .timeout = 120);

typedef bool compare(const char *given, const char *secret);

/* Runs the comparison in a process of its own, step by step between two signals. Returns the number of steps. */
static long steps_of(compare *same, const char *given, const char *secret, bool *result)
{
	long steps = 0;
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(99);
		raise(SIGUSR1);
		bool found = same(given, secret);
		raise(SIGUSR1);
		_exit(found);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSTOPPED(status), "this user may not trace its own process: status %x", status);
	do {
		cr_assert_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert(WIFSTOPPED(status));
		steps++;
	} while (WSTOPSIG(status) == SIGTRAP);
	cr_assert_eq(WSTOPSIG(status), SIGUSR1);
	cr_assert_eq(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	*result = WEXITSTATUS(status);
	return steps;
}

/* Compares a text with the secret itself, and with one that differs at each of the places. Returns whether all that
 * differ take as many steps. */
static bool is_constant(compare *same, const char *secret, const size_t *places, size_t count)
{
	long first = 0;
	bool constant = true, equal;

	cr_assert(same(secret, secret)); /* what libcrypto sets up once is not counted */
	for (size_t i = 0; i < count; i++) {
		static char given[256]; /* at the same address each time, on which the steps of copies depend */
		long steps;

		snprintf(given, sizeof given, "%s", secret);
		given[places[i]] = given[places[i]] == '1' ? '0' : '1';
		steps = steps_of(same, given, secret, &equal);
		cr_assert(!equal);
		first = i == 0 ? steps : first;
		constant &= steps == first;
	}
	return constant;
}

static bool same_text(const char *given, const char *secret)
{
	while (*given && *given == *secret) {
		given++;
		secret++;
	}
	return *given == *secret;
}

static bool same_hash(const char *given, const char *secret)
{
	return access_hash_equal((const uint8_t *)given, (const uint8_t *)secret);
}

Test(constant_time, an_ordinary_comparison_is_not)
{
	static const char secret[] = "0123456789abcdef0123456789abcdef";

	cr_assert(!is_constant(same_text, secret, (const size_t[]){0, 31}, 2));
}

Test(constant_time, of_hashes)
{
	static const char hash[] = "0123456789abcdef0123456789abcdef";

	cr_assert(is_constant(same_hash, hash, (const size_t[]){0, 1, 15, 31}, 4));
}
