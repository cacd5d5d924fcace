/* The exit code that sql_server.c sends to sql.c; the same as psql's. */
#ifndef TESTS_TOOLS_SQL_H
#define TESTS_TOOLS_SQL_H

enum { SQL_DONE = 0, SQL_FAILED = 1, SQL_UNREACHABLE = 2 };

#endif
