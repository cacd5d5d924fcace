/* The memory that lease-worker's function and a test share, in a file that both map. */
#ifndef REEVE_TESTS_COUNTING_H
#define REEVE_TESTS_COUNTING_H

#include <stdatomic.h>
#include <stdint.h>

struct counting {
	_Atomic int32_t begun;       /* how often the function was started */
	_Atomic int32_t count;       /* grows while it runs */
	_Atomic int32_t cancellable; /* not 0: it ends when it is asked to stop */
	_Atomic int32_t finish;      /* not 0: it ends */
};

#endif
