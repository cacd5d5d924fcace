/*
 * glibc maps each block above a threshold separately. It raises the threshold to the size of the largest such block
 * freed, up to 32 MiB, so after a flood of long messages later ones come from the heaps, which shrink only at their
 * ends. Therefore the threshold is fixed, and the heaps are trimmed when much of them is free.
 */
#include "manager/memory.h"

#include "common/mem.h"

#include <event2/event.h>
#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

enum { MAPPED_FROM_BYTES = 256 << 10, FREE_MAX_BYTES = 32 << 20 };

static bool trim(void *arg)
{
	(void)arg;
	if (mallinfo2().fordblks > FREE_MAX_BYTES)
		malloc_trim(0);
	return false;
}

void memory_setup(void)
{
	event_set_mem_functions(mem_malloc, mem_realloc, free);
	json_set_alloc_funcs(mem_malloc, free);
}

void memory_watch(struct jobs *jobs)
{
	mallopt(M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
	jobs_bind(jobs, JOB_MEMORY, trim, NULL);
}
