/* What tests/tools/sql.c and sql_server.c tell each other: the exit code, which is psql's. */
#ifndef TESTS_TOOLS_SQL_H
#define TESTS_TOOLS_SQL_H

enum { SQL_DONE = 0, SQL_FAILED = 1, SQL_UNREACHABLE = 2 };

#endif
