/* Comparisons that show both values if they do not hold. See compare.h. */
#include "tests/unit/compare.h"

#include <criterion/logging.h>
#include <inttypes.h>
#include <string.h>

static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};

static bool holds(int difference, enum comparison comparison)
{
	switch (comparison) {
	case COMPARE_EQ: return difference == 0;
	case COMPARE_NE: return difference != 0;
	case COMPARE_LT: return difference < 0;
	case COMPARE_LE: return difference <= 0;
	case COMPARE_GT: return difference > 0;
	case COMPARE_GE: return difference >= 0;
	}
	return false;
}

bool compare_numbers(intmax_t a, enum comparison comparison, intmax_t b, const char *file, int line)
{
	bool held = holds((a > b) - (a < b), comparison);
	if (!held)
		cr_log_error("%s:%d: %jd %s %jd does not hold", file, line, a, signs[comparison], b);
	return held;
}

bool compare_texts(const char *a, enum comparison comparison, const char *b, const char *file, int line)
{
	bool held = a && b ? holds(strcmp(a, b), comparison) : (a == b) == (comparison == COMPARE_EQ);
	if (!held)
		cr_log_error(
		    "%s:%d: \"%s\" %s \"%s\" does not hold", file, line, a ? a : "(null)", signs[comparison], b ? b : "(null)");
	return held;
}
