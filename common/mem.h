/*
 * Memory for programs: who gets none ends. What a manager has promised is in the database, and there is nothing that it could do
 * with half of an operation. The libraries are part of other people's programs, and use it for their hash tables alone, which cannot
 * do without.
 *
 * The functions are those of the C library without "mem_", but for that they return no NULL; free() frees. Any thread.
 */
#ifndef REEVE_COMMON_MEM_H
#define REEVE_COMMON_MEM_H

#include <stddef.h>

void *mem_malloc(size_t size);
void *mem_calloc(size_t count, size_t size);
void *mem_realloc(void *memory, size_t size);
char *mem_strdup(const char *text);
char *mem_strndup(const char *text, size_t length);

#endif
