/*
 * The parameters of one statement, in PostgreSQL's binary format. They are added one by one to a growing buffer, which
 * is reused for the next statement. Not thread-safe; each role has its own.
 */
#ifndef REEVE_MANAGER_STORE_PARAMS_H
#define REEVE_MANAGER_STORE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARAMS_MAX = 32 };

/* PostgreSQL's -infinity and infinity as points in time. */
#define TIME_BEGIN INT64_MIN
#define TIME_NEVER INT64_MAX

/* PostgreSQL's type OIDs of array elements. */
enum params_type {
	PARAMS_BOOL = 16,
	PARAMS_INT8 = 20,
	PARAMS_INT4 = 23,
	PARAMS_TEXT = 25,
	PARAMS_TIME = 1184,
	PARAMS_UUID = 2950,
};

struct params {
	char *data;
	size_t length, capacity;
	int count;
	size_t start[PARAMS_MAX];
	int size[PARAMS_MAX]; /* −1: null */
	size_t array;         /* the offset of the open array's header */
};

/* Removes all parameters; keeps the memory. Accepts a zeroed struct. */
void params_reset(struct params *p);
void params_free(struct params *p);

/* Adds a scalar. Times are microseconds since 1970, TIME_BEGIN or TIME_NEVER. A NULL text or uuid is passed as null. */
void params_null(struct params *p);
void params_bool(struct params *p, bool value);
void params_int4(struct params *p, int32_t value);
void params_int8(struct params *p, int64_t value);
void params_time(struct params *p, int64_t us);
void params_time_or_null(struct params *p, int64_t us); /* 0: null */
void params_text(struct params *p, const char *text);
void params_uuid(struct params *p, const uint8_t uuid[16]);

/* Adds an array: begin, elements, end. Elements must have the array's type. */
void params_array_begin(struct params *p, enum params_type type);
void params_add_null(struct params *p);
void params_add_bool(struct params *p, bool value);
void params_add_int4(struct params *p, int32_t value);
void params_add_int8(struct params *p, int64_t value);
void params_add_time(struct params *p, int64_t us);
void params_add_text(struct params *p, const char *text);
void params_add_uuid(struct params *p, const uint8_t uuid[16]);
void params_array_end(struct params *p);

/* A column of a statement: one array parameter, with the value of one member of each row. */
struct params_column {
	enum params_type type;
	uint16_t offset; /* of the member: bool, int32_t, int64_t, const char * or uint8_t[16]; or of a pointer to such */
	uint16_t list;   /* not 0: the member is a pointer to an array, and this is the offset of its length, an int */
	bool nullable;   /* int64_t: null_if is passed as null. A NULL string always is. */
	int64_t null_if;
};

#define COLUMN(row, member, kind)                                                                                      \
	{                                                                                                                  \
		.type = PARAMS_##kind, .offset = offsetof(row, member)                                                         \
	}
#define COLUMN_OR_NULL(row, member, kind, null)                                                                        \
	{                                                                                                                  \
		.type = PARAMS_##kind, .offset = offsetof(row, member), .nullable = true, .null_if = (null)                    \
	}
#define COLUMN_LIST(row, member, length, kind)                                                                         \
	{                                                                                                                  \
		.type = PARAMS_##kind, .offset = offsetof(row, member), .list = offsetof(row, length)                          \
	}
#define COLUMNS(table) (table), (int)(sizeof(table) / sizeof *(table))

/* Adds an array for each column. The rows are pointers to structs. A column with only nulls is passed as one null, so
 * that PostgreSQL need not read it. Call it as params_columns(p, rows, n, COLUMNS(table)). */
void params_columns(struct params *p, const void *rows, int n, const struct params_column *columns, int count);

/* The same for an array of structs of this size. */
void params_struct_columns(
    struct params *p, const void *structs, size_t size, int n, const struct params_column *columns, int count);

/* Adds an array of int8 with all its elements, usually ids. */
void params_int8s(struct params *p, const int64_t *values, int count);

#endif
