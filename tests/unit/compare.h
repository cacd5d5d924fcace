/* Comparisons for cr_assert and cr_expect, which show both values if they do not hold: cr_assert(eq(int, count, 3)).
 * They have the names that Criterion's own have (criterion/new/assert.h), whose macros take the compiler several times
 * as long as all the rest of a test. */
#ifndef REEVE_TESTS_COMPARE_H
#define REEVE_TESTS_COMPARE_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>

enum comparison { COMPARE_EQ, COMPARE_NE, COMPARE_LT, COMPARE_LE, COMPARE_GT, COMPARE_GE };

bool compare_numbers(intmax_t a, enum comparison comparison, intmax_t b, const char *file, int line);
bool compare_texts(const char *a, enum comparison comparison, const char *b, const char *file, int line);

/* `type`: int, str, ptr, … */
#define eq(type, a, b) compare_##type(a, COMPARE_EQ, b)
#define ne(type, a, b) compare_##type(a, COMPARE_NE, b)
#define lt(type, a, b) compare_##type(a, COMPARE_LT, b)
#define le(type, a, b) compare_##type(a, COMPARE_LE, b)
#define gt(type, a, b) compare_##type(a, COMPARE_GT, b)
#define ge(type, a, b) compare_##type(a, COMPARE_GE, b)
#define not(a) (!(a))

#define compare_str(a, comparison, b) compare_texts(a, comparison, b, __FILE__, __LINE__)
#define compare_ptr(a, comparison, b) compare_numbers((intptr_t)(a), comparison, (intptr_t)(b), __FILE__, __LINE__)
#define compare_int(a, comparison, b) compare_numbers(a, comparison, b, __FILE__, __LINE__)
#define compare_chr compare_int
#define compare_i32 compare_int
#define compare_u32 compare_int
#define compare_long compare_int
#define compare_i64 compare_int
#define compare_u64(a, comparison, b) compare_numbers((intmax_t)(a), comparison, (intmax_t)(b), __FILE__, __LINE__)
#define compare_sz compare_u64

#endif
