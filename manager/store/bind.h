/*
 * Passes requests as parameters of statements, and reads rows as responses, by the statements' heads (sql/heads.awk).
 * Not for the hot paths: submits, claims, heartbeats and reports, of which there can be thousands a second.
 *
 * Parameters: an integer is passed as int8, a bool as bool, text as text, an enum as the name of its value in lower
 * case without the enum's name ("completed"; an unspecified one as null), a field whose name ends in _us as
 * timestamptz, repeated int64 as int8[], repeated text or enums as text[], a field of repeated messages (`LIST[].NAME`)
 * as text[] or int8[]. After `NAME?` the parameter is null if the field is 0, "" or empty. A field of a message that is
 * not set is null.
 *
 * Columns: a value is converted from the column's type to the field's type; an enum can be text or a number, a message
 * is jsonb (common/json.h), a list is text[], int8[] or timestamptz[]. A column `-` is not read. Null leaves the field
 * as it is; infinite times read as 0. A row adds a message to the list unless its first column for the list is null. A
 * message within a message is created if the first of its columns is neither null nor an unspecified enum. The
 * response's own fields are read from the last row.
 */
#ifndef REEVE_MANAGER_STORE_BIND_H
#define REEVE_MANAGER_STORE_BIND_H

#include "manager/store/params.h"

#include <libpq-fe.h>
#include <protobuf-c/protobuf-c.h>
#include <sql/sql.h>
#include <stdint.h>

/* Parameters of statements that are not fields of requests. */
struct bind_values {
	const uint8_t *request_id; /* @request_id: the call's */
	const char *actor;         /* @actor: the caller */
	const char *change;        /* @change: JSON that the service made of the request */
	int64_t lease_ms;          /* @lease_ms: the lease of workers that request none */
	int64_t max_bytes;         /* @max_bytes: the maximum of an answer */
	int64_t max_details;       /* @max_details: the maximum length of details that this manager assigns */
	int64_t max_task;          /* @max_task: the maximum of a task's details, result and stack trace in an answer */
	int64_t estimate_us;       /* @estimate: the manager's estimate of the time; 0 is passed as null */
	int64_t manager;           /* @manager: the number of this manager */
	int64_t max_scanned;       /* @max_scanned: the maximum of rows that a listing scans for an answer */
	int64_t max_tasks;         /* @max_tasks: the maximum of tasks that a change selects */
	bool ended_wanted;         /* @ended_wanted: tasks that have ended are listed, … */
	int32_t live_wanted;       /* @live_wanted: … of live ones 0: none, 1: any, 2: those that execute */
};

/* Adds the parameters of a statement. The request has the type that its head names. */
void bind_params(
    struct params *p, enum sql_id statement, const ProtobufCMessage *request, const struct bind_values *values);

/* Reads rows into a response, which is initialized and has the type that the head names.
 * protobuf_c_message_free_unpacked frees everything it refers to. */
void bind_rows(enum sql_id statement, const PGresult *rows, ProtobufCMessage *response);

#endif
