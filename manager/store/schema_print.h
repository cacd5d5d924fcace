/* The schema as a script for psql, for those who do not let a manager create tables. */
#ifndef REEVE_MANAGER_STORE_SCHEMA_PRINT_H
#define REEVE_MANAGER_STORE_SCHEMA_PRINT_H

#include <stdbool.h>
#include <stdio.h>

/* Writes the SQL that does to a database of schema version `from` (0: none) what migrate() would, in one transaction; from this
 * program's own version it replaces the functions and views. False: there is no way from that version; standard error says so. */
bool schema_print(int from, FILE *out);

#endif
