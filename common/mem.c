#include "common/mem.h"

#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Logs and aborts if an allocation has failed. NULL is valid for zero bytes. */
static void *checked(void *memory, size_t size)
{
	if (!memory && size) {
		log_error(NULL, "out of memory: %zu bytes could not be allocated", size);
		abort();
	}
	return memory;
}

void *mem_malloc(size_t size)
{
	return checked(malloc(size), size);
}

void *mem_calloc(size_t count, size_t size)
{
	return checked(calloc(count, size), count * size);
}

void *mem_realloc(void *memory, size_t size)
{
	return checked(realloc(memory, size), size);
}

void *mem_extend(void *array, size_t size, int *count, int index)
{
	int old = *count;

	if (index < old)
		return array;
	*count = index < 2 * old ? 2 * old : index + 1;
	array = mem_realloc(array, size * (size_t)*count);
	memset((char *)array + size * (size_t)old, 0, size * (size_t)(*count - old));
	return array;
}

char *mem_strdup(const char *text)
{
	return checked(strdup(text), strlen(text) + 1);
}

char *mem_strndup(const char *text, size_t length)
{
	return checked(strndup(text, length), length + 1);
}

char *mem_vasprintf(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		checked(NULL, strlen(format));
	return text;
}

char *mem_asprintf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = mem_vasprintf(format, args);
	va_end(args);
	return text;
}

FILE *mem_stream(char **text, size_t *size)
{
	FILE *stream = open_memstream(text, size);

	mem_check(stream != NULL);
	return stream;
}

void mem_check(bool allocated)
{
	if (allocated)
		return;
	log_error(NULL, "out of memory");
	abort();
}
