/* Reads values of a binary result. The caller must know the column's type; a null reads as 0, "" or false. */
#ifndef REEVE_MANAGER_STORE_ROW_H
#define REEVE_MANAGER_STORE_ROW_H

#include "common/mem.h"
#include "manager/store/pgtime.h"

#include <endian.h>
#include <libpq-fe.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline bool row_null(const PGresult *r, int row, int column)
{
	return PQgetisnull(r, row, column);
}

static inline int64_t row_int8(const PGresult *r, int row, int column)
{
	uint64_t v;
	if (PQgetlength(r, row, column) != 8)
		return 0;
	memcpy(&v, PQgetvalue(r, row, column), 8);
	return (int64_t)be64toh(v);
}

static inline int32_t row_int4(const PGresult *r, int row, int column)
{
	uint32_t v;
	if (PQgetlength(r, row, column) != 4)
		return 0;
	memcpy(&v, PQgetvalue(r, row, column), 4);
	return (int32_t)be32toh(v);
}

static inline int16_t row_int2(const PGresult *r, int row, int column)
{
	uint16_t v;
	if (PQgetlength(r, row, column) != 2)
		return 0;
	memcpy(&v, PQgetvalue(r, row, column), 2);
	return (int16_t)be16toh(v);
}

static inline bool row_bool(const PGresult *r, int row, int column)
{
	return PQgetlength(r, row, column) == 1 && *PQgetvalue(r, row, column) != 0;
}

static inline double row_float8(const PGresult *r, int row, int column)
{
	uint64_t v = (uint64_t)row_int8(r, row, column);
	double d;
	memcpy(&d, &v, 8);
	return d;
}

/* Returns microseconds since 1970; 0 for null. */
static inline int64_t row_time(const PGresult *r, int row, int column)
{
	return row_null(r, row, column) ? 0 : pgtime_to_us(row_int8(r, row, column));
}

/* Returns a NUL-terminated string, valid as long as the result. */
static inline const char *row_text(const PGresult *r, int row, int column)
{
	return row_null(r, row, column) ? "" : PQgetvalue(r, row, column);
}

/* Returns a copy for a message; protobuf_c_message_free_unpacked frees it. */
static inline char *row_copy(const PGresult *r, int row, int column)
{
	int length = PQgetlength(r, row, column);
	if (length == 0)
		return (char *)protobuf_c_empty_string;
	char *text = mem_malloc((size_t)length + 1);
	memcpy(text, PQgetvalue(r, row, column), (size_t)length);
	text[length] = 0;
	return text;
}

/* Starts to read a one-dimensional array without nulls: returns the number of elements, and sets *data to the first
 * element's length word, from which row_array_next continues. Returns 0 for an empty array. */
static inline int row_array(const PGresult *r, int row, int column, const char **data)
{
	uint32_t dimensions, n;
	if (PQgetlength(r, row, column) < 20)
		return 0;
	const char *at = PQgetvalue(r, row, column);
	memcpy(&dimensions, at, 4);
	if (be32toh(dimensions) != 1)
		return 0;
	memcpy(&n, at + 12, 4);
	*data = at + 20;
	return (int)be32toh(n);
}

/* Returns the next element, which is not NUL-terminated, and moves on. */
static inline const char *row_array_next(const char **data, int *length)
{
	uint32_t n;
	memcpy(&n, *data, 4);
	*length = (int)be32toh(n);
	const char *value = *data + 4;
	*data = value + *length;
	return value;
}

/* Returns the next element of an array of int8. */
static inline int64_t row_array_int8(const char **data)
{
	int length;
	uint64_t v;
	memcpy(&v, row_array_next(data, &length), 8);
	return (int64_t)be64toh(v);
}

#endif
