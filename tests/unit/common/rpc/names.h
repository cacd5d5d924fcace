/*
 * Host names for tests: this program's own getaddrinfo knows a few that lead where no real name server would. All others,
 * and addresses in numbers, go to the C library's.
 *
 *	here.test     127.0.0.1, unless names_are_silent
 *	second.test   127.0.0.9 first, then 127.0.0.1
 *	*.gone.test   there is no such name
 *	*.slow.test   no name server answers for a minute
 */
#ifndef REEVE_TESTS_NAMES_H
#define REEVE_TESTS_NAMES_H

#include <stdatomic.h>

extern atomic_bool names_are_silent; /* from now on here.test is like slow.test */
extern atomic_int names_looked_up;   /* how often one of these names was */

#endif
