/* Prints what this process's hash tables make of the same bytes, and of the same id, as any other such process. */
#include "common/hash.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	int64_t id = 1;

	printf("%" PRIx64 " %x\n", hash_bytes("queue", 5), hash_key(&id, sizeof id));
	return 0;
}
