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

/* Adds an array of int8 with all its elements, usually ids. */
void params_int8s(struct params *p, const int64_t *values, int count);

#endif
