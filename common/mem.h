/*
 * Allocation that never returns NULL: a process without memory logs it and aborts. A manager's promises are in the database, so that
 * it loses nothing. The libraries use it only for their hash tables, which could not report a failure.
 *
 * Otherwise the functions are those of the C library without "mem_"; free() frees. Any thread.
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
