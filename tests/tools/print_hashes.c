/* Prints this process's hashes of fixed bytes and of a fixed id, for comparison with those of other processes. */
#include "common/hash.h"

#include <inttypes.h>
#include <stdio.h>

int main(void)
{
	int64_t id = 1;

	printf("%" PRIx64 " %x\n", hash_bytes("queue", 5), hash_key(&id, sizeof id));
	return 0;
}
