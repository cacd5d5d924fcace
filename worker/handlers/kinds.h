/* The kinds of handlers that handlers files may have. */
#ifndef REEVE_WORKER_HANDLERS_KINDS_H
#define REEVE_WORKER_HANDLERS_KINDS_H

#include "worker/handler.h"

/* A section with this key has a handler of this kind. The key's value is spec->command. */
struct handler_kind {
	const char *key;
	bool is_program; /* the value is a command, of which the spec has the program and its arguments */
	/* Creates the handler and takes the spec's strings. NULL: *error has the reason, and the spec stays the caller's.
	 */
	struct handler *(*create)(const char *type, struct handler_spec *spec, struct reeve_error *error);
	struct handler_kind *next;
};

/* Adds a kind to those of the library. Called before there are threads. */
void handler_kinds_add(struct handler_kind *kind);

struct handler *exec_handler_create(const char *type, struct handler_spec *spec, struct reeve_error *error);
struct handler *stdio_handler_create(const char *type, struct handler_spec *spec, struct reeve_error *error);
struct handler *plugin_handler_create(const char *type, struct handler_spec *spec, struct reeve_error *error);

#endif
