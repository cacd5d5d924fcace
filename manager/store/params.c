/* Encodes statement parameters: scalars in big-endian order, arrays with PostgreSQL's header for one dimension. */
#include "manager/store/params.h"

#include "common/mem.h"
#include "manager/store/pgtime.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* An empty value has an address, too: libpq takes NULL for the value null. */
static char *reserve(struct params *p, size_t bytes)
{
	if (!p->data || p->length + bytes > p->capacity) {
		size_t capacity = p->capacity ? p->capacity : 4096;
		while (capacity < p->length + bytes)
			capacity *= 2;
		p->data = mem_realloc(p->data, capacity);
		p->capacity = capacity;
	}
	char *at = p->data + p->length;
	p->length += bytes;
	return at;
}

static void put4(struct params *p, uint32_t value)
{
	value = htobe32(value);
	memcpy(reserve(p, 4), &value, 4);
}

static void put8(struct params *p, uint64_t value)
{
	value = htobe64(value);
	memcpy(reserve(p, 8), &value, 8);
}

static void put(struct params *p, const void *bytes, size_t length)
{
	memcpy(reserve(p, length), bytes, length);
}

void params_reset(struct params *p)
{
	p->length = 0;
	p->count = 0;
}

void params_free(struct params *p)
{
	free(p->data);
	*p = (struct params){0};
}

static void begin(struct params *p)
{
	assert(p->count < PARAMS_MAX);
	p->start[p->count] = p->length;
}

static void end(struct params *p)
{
	p->size[p->count] = (int)(p->length - p->start[p->count]);
	p->count++;
}

void params_null(struct params *p)
{
	begin(p);
	p->size[p->count++] = -1;
}

void params_bool(struct params *p, bool value)
{
	begin(p);
	put(p, value ? "\1" : "\0", 1);
	end(p);
}

void params_int4(struct params *p, int32_t value)
{
	begin(p);
	put4(p, (uint32_t)value);
	end(p);
}

void params_int8(struct params *p, int64_t value)
{
	begin(p);
	put8(p, (uint64_t)value);
	end(p);
}

void params_time(struct params *p, int64_t us)
{
	params_int8(p, pgtime_from_us(us));
}

void params_time_or_null(struct params *p, int64_t us)
{
	if (us)
		params_time(p, us);
	else
		params_null(p);
}

void params_text(struct params *p, const char *text)
{
	if (!text) {
		params_null(p);
		return;
	}
	begin(p);
	put(p, text, strlen(text));
	end(p);
}

void params_uuid(struct params *p, const uint8_t uuid[16])
{
	if (!uuid) {
		params_null(p);
		return;
	}
	begin(p);
	put(p, uuid, 16);
	end(p);
}

/* The header of an array: number of dimensions, null flag, element type, length, lower bound. */
enum { HEADER_NULLS = 4, HEADER_LENGTH = 12, HEADER_BYTES = 20 };

void params_array_begin(struct params *p, enum params_type type)
{
	begin(p);
	p->array = p->length;
	put4(p, 1);
	put4(p, 0);
	put4(p, type);
	put4(p, 0);
	put4(p, 1);
}

static void counted(struct params *p)
{
	uint32_t n;
	memcpy(&n, p->data + p->array + HEADER_LENGTH, 4);
	n = htobe32(be32toh(n) + 1);
	memcpy(p->data + p->array + HEADER_LENGTH, &n, 4);
}

void params_add_null(struct params *p)
{
	uint32_t one = htobe32(1);
	put4(p, UINT32_MAX);
	memcpy(p->data + p->array + HEADER_NULLS, &one, 4);
	counted(p);
}

void params_add_bool(struct params *p, bool value)
{
	put4(p, 1);
	put(p, value ? "\1" : "\0", 1);
	counted(p);
}

void params_add_int4(struct params *p, int32_t value)
{
	put4(p, 4);
	put4(p, (uint32_t)value);
	counted(p);
}

void params_add_int8(struct params *p, int64_t value)
{
	put4(p, 8);
	put8(p, (uint64_t)value);
	counted(p);
}

void params_add_time(struct params *p, int64_t us)
{
	params_add_int8(p, pgtime_from_us(us));
}

void params_add_text(struct params *p, const char *text)
{
	if (!text) {
		params_add_null(p);
		return;
	}
	size_t length = strlen(text);
	put4(p, (uint32_t)length);
	put(p, text, length);
	counted(p);
}

void params_add_uuid(struct params *p, const uint8_t uuid[16])
{
	put4(p, 16);
	put(p, uuid, 16);
	counted(p);
}

void params_array_end(struct params *p)
{
	/* In PostgreSQL an empty array has no dimensions. */
	uint32_t n, zero = 0;
	memcpy(&n, p->data + p->array + HEADER_LENGTH, 4);
	if (n == 0) {
		memcpy(p->data + p->array, &zero, 4);
		p->length = p->array + HEADER_LENGTH;
	}
	end(p);
}

/* Writes a length and `size` bytes; returns where they are to be written. */
static char *element(struct params *p, uint32_t size)
{
	char *at = reserve(p, 4 + (size_t)size);
	uint32_t length = htobe32(size);
	memcpy(at, &length, 4);
	return at + 4;
}

static void element_int8(struct params *p, int64_t value)
{
	uint64_t bytes = htobe64((uint64_t)value);
	memcpy(element(p, 8), &bytes, 8);
}

static void element_int4(struct params *p, int32_t value)
{
	uint32_t bytes = htobe32((uint32_t)value);
	memcpy(element(p, 4), &bytes, 4);
}

/* Adds an element. Returns 1 if it is null. Inlined with a constant type: submits and claims pass many rows. */
static inline __attribute__((always_inline)) int column_element(
    struct params *p, const struct params_column *c, enum params_type type, const char *value)
{
	const char *string;
	size_t length;
	if (c->nullable && *(const int64_t *)value == c->null_if) {
		put4(p, UINT32_MAX);
		return 1;
	}
	switch (type) {
	case PARAMS_BOOL: *element(p, 1) = *(const bool *)value; break;
	case PARAMS_INT4: element_int4(p, *(const int32_t *)value); break;
	case PARAMS_INT8: element_int8(p, *(const int64_t *)value); break;
	case PARAMS_TIME: element_int8(p, pgtime_from_us(*(const int64_t *)value)); break;
	case PARAMS_UUID: memcpy(element(p, 16), value, 16); break;
	case PARAMS_TEXT:
		string = *(const char *const *)value;
		if (!string) {
			put4(p, UINT32_MAX);
			return 1;
		}
		length = strlen(string);
		memcpy(element(p, (uint32_t)length), string, length);
		break;
	}
	return 0;
}

static size_t type_size(enum params_type type)
{
	switch (type) {
	case PARAMS_BOOL: return sizeof(bool);
	case PARAMS_INT4: return sizeof(int32_t);
	case PARAMS_INT8:
	case PARAMS_TIME: return sizeof(int64_t);
	case PARAMS_TEXT: return sizeof(char *);
	case PARAMS_UUID: return 16;
	}
	return 0;
}

/* Returns a row of an array of structs of this size; size 0: of an array of pointers. */
static const char *row_at(const void *rows, size_t size, int i)
{
	return size ? (const char *)rows + size * (size_t)i : ((const char *const *)rows)[i];
}

static inline __attribute__((always_inline)) int column_elements(
    struct params *p, const struct params_column *c, enum params_type type, const void *rows, size_t size, int n)
{
	int nulls = 0;
	for (int i = 0; i < n; i++)
		nulls += column_element(p, c, type, row_at(rows, size, i) + c->offset);
	return nulls;
}

/* Adds an element for each row. Returns the number of nulls. */
static int column_values(struct params *p, const struct params_column *c, const void *rows, size_t size, int n)
{
	switch (c->type) {
	case PARAMS_INT4: return column_elements(p, c, PARAMS_INT4, rows, size, n);
	case PARAMS_INT8: return column_elements(p, c, PARAMS_INT8, rows, size, n);
	case PARAMS_TEXT: return column_elements(p, c, PARAMS_TEXT, rows, size, n);
	case PARAMS_TIME: return column_elements(p, c, PARAMS_TIME, rows, size, n);
	default: return column_elements(p, c, c->type, rows, size, n);
	}
}

/* Adds the elements of each row's list. Returns the number of nulls, and sets *count to the number of all. */
static int column_lists(
    struct params *p, const struct params_column *c, const void *rows, size_t row_size, int n, int *count)
{
	size_t size = type_size(c->type);
	int nulls = 0;
	*count = 0;
	for (int i = 0; i < n; i++) {
		const char *row = row_at(rows, row_size, i), *values = *(const char *const *)(row + c->offset);
		int length = *(const int *)(row + c->list);
		for (int k = 0; k < length; k++)
			nulls += column_element(p, c, c->type, values + size * (size_t)k);
		*count += length;
	}
	return nulls;
}

void params_struct_columns(
    struct params *p, const void *rows, size_t size, int n, const struct params_column *columns, int count)
{
	for (const struct params_column *c = columns; c < columns + count; c++) {
		int nulls = 0, elements = n;
		params_array_begin(p, c->type);
		if (c->list)
			nulls = column_lists(p, c, rows, size, n, &elements);
		else
			nulls = column_values(p, c, rows, size, n);
		if (elements && nulls == elements) {
			p->length = p->array;
			params_null(p);
			continue;
		}
		uint32_t length = htobe32((uint32_t)elements), has_nulls = htobe32(nulls > 0);
		memcpy(p->data + p->array + HEADER_LENGTH, &length, 4);
		memcpy(p->data + p->array + HEADER_NULLS, &has_nulls, 4);
		params_array_end(p);
	}
}

void params_columns(struct params *p, const void *rows, int n, const struct params_column *columns, int count)
{
	params_struct_columns(p, rows, 0, n, columns, count);
}

void params_int8s(struct params *p, const int64_t *values, int count)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < count; i++)
		params_add_int8(p, values[i]);
	params_array_end(p);
}
