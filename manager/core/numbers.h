/* Comparison of ids. */
#ifndef REEVE_MANAGER_CORE_NUMBERS_H
#define REEVE_MANAGER_CORE_NUMBERS_H

#include <stdint.h>

/* Compares two int64_t, for qsort and bsearch. */
static inline int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

#endif
