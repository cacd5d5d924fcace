/* Prints the ledgers' time in µs, for scripts: /proc/uptime knows hundredths of a second, and cuts the rest off. */
#include "tests/faults/ledger.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	return printf("%" PRId64 "\n", ledger_now_us()) < 0;
}
