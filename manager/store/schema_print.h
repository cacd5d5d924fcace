/* Prints the schema as a script for psql, for sites that do not let a manager create tables. */
#ifndef REEVE_MANAGER_STORE_SCHEMA_PRINT_H
#define REEVE_MANAGER_STORE_SCHEMA_PRINT_H

#include <stdbool.h>
#include <stdio.h>

/* Writes the SQL that upgrades a database of schema version `from` (0: none) as migrate() would, in one transaction;
 * from this program's own version it replaces the functions and views. Returns false if there is no upgrade from
 * that version, with a message on standard error. */
bool schema_print(int from, FILE *out);

#endif
