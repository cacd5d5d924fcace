/*
 * Requests as parameters of statements and rows as responses, by what the statements' heads say (sql/heads.awk). For all that is
 * not submitted, claimed, renewed or reported a thousand times a second.
 *
 * How a field is passed: integers as int8, bool as bool, text as text, an enum as the lower case of its value's name without
 * the enum's ("completed"; an unspecified one as null), a field whose name ends in _us as timestamptz, repeated int64 as int8[],
 * repeated text as text[]. `?` behind its name: null where it is 0, "" or none.
 *
 * How a column is read: by its type into what the field is, enums from text or from a number; null leaves the field as it is, and infinite
 * times read as 0. A row whose first column for the list is null is no message of the list; a message within a message is there
 * if the first of its columns is neither null nor 0. The response's own fields are read from the last row.
 */
#ifndef REEVE_MANAGER_STORE_BIND_H
#define REEVE_MANAGER_STORE_BIND_H

#include "manager/store/params.h"

#include <libpq-fe.h>
#include <protobuf-c/protobuf-c.h>
#include <sql/sql.h>
#include <stdint.h>

/* What statements take that requests do not have. */
struct bind_values {
	int64_t lease_ms;     /* @lease_ms: the lease of workers that ask for none */
	int64_t max_bytes;    /* @max_bytes: of an answer */
	int64_t max_scanned;  /* @max_scanned: rows that a listing looks at for an answer */
};

/* Adds the parameters of a statement. The request is of the type that its head names. */
void bind_params(struct params *p, enum sql_id statement, const ProtobufCMessage *request, const struct bind_values *values);

/* Reads rows into a response, which is initialized and of the type that the head names; what it leads to is freed by
 * protobuf_c_message_free_unpacked. */
void bind_rows(enum sql_id statement, const PGresult *rows, ProtobufCMessage *response);

#endif
