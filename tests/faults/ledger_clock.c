/* Prints the ledgers' time in µs, for scripts. /proc/uptime has only hundredths of a second, rounded down. */
#include "tests/faults/ledger.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	return printf("%" PRId64 "\n", ledger_now_us()) < 0;
}
