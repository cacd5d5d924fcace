/* What the fuzz targets share. Each is a file of its own with a function that libFuzzer calls, too. */
#ifndef REEVE_TESTS_FUZZ_FUZZ_H
#define REEVE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Takes one input. Whatever is wrong ends the process. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Ends the process if a condition does not hold. */
#define FUZZ_CHECK(condition, ...)                                                                                     \
	do {                                                                                                               \
		if (!(condition)) {                                                                                            \
			fprintf(stderr, __VA_ARGS__);                                                                              \
			fputs("\n", stderr);                                                                                       \
			abort();                                                                                                   \
		}                                                                                                              \
	} while (0)

#endif
