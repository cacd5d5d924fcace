/* What lease-worker's function and a test tell each other, in a file that both map. */
#ifndef REEVE_TESTS_COUNTING_H
#define REEVE_TESTS_COUNTING_H

#include <stdatomic.h>
#include <stdint.h>

struct counting {
	_Atomic int32_t begun;  /* how often the function was begun */
	_Atomic int32_t count;  /* grows as long as it runs */
	_Atomic int32_t heed;   /* not 0: it ends when it is asked to */
	_Atomic int32_t finish; /* not 0: it ends */
};

#endif
