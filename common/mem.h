/*
 * Allocation that never returns NULL (except for zero bytes): without memory it logs that and aborts the process. A
 * manager loses nothing then, since all that it has acknowledged is in the database. A worker's tasks run again on
 * another worker. So no function reports a lack of memory.
 *
 * Otherwise each function does what the C library's function without "mem_" does. Use free() to free. Any thread.
 */
#ifndef REEVE_COMMON_MEM_H
#define REEVE_COMMON_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

void *mem_malloc(size_t size);
void *mem_calloc(size_t count, size_t size);
void *mem_realloc(void *memory, size_t size);

/* Returns an array with an element at this index, at least twice as long as before if it was too short. New elements
 * are zero. *count is the number of elements. */
void *mem_extend(void *array, size_t size, int *count, int index);

char *mem_strdup(const char *text);
char *mem_strndup(const char *text, size_t length);

/* Return the formatted string. */
char *mem_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *mem_vasprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/* Opens a stream that writes to a string, as open_memstream does. */
FILE *mem_stream(char **text, size_t *size);

/* Aborts in the same way if a function of a library could not allocate memory. */
void mem_check(bool allocated);

#endif
