/*
 * Host names for tests. This program's own getaddrinfo knows the names below, which lead where no real name server
 * would. It passes all other names, and numeric addresses, to the C library's.
 *
 *	here.test     127.0.0.1, unless names_are_silent
 *	second.test   127.0.0.9 first, then 127.0.0.1
 *	*.gone.test   there is no such name
 *	*.slow.test   no name server answers for a minute
 */
#ifndef REEVE_TESTS_NAMES_H
#define REEVE_TESTS_NAMES_H

#include <stdatomic.h>

extern atomic_bool names_are_silent; /* from now on, here.test behaves like slow.test */
extern atomic_int names_looked_up;   /* number of lookups of these names */

#endif
