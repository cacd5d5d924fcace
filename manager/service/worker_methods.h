/* The methods of WorkerService that have files of their own, and what these share. */
#ifndef REEVE_MANAGER_SERVICE_WORKER_METHODS_H
#define REEVE_MANAGER_SERVICE_WORKER_METHODS_H

#include "manager/core/dispatch.h"
#include "manager/service/services.h"

#include <reeve/v1/worker.pb-c.h>

rpc_method worker_fetch, worker_report, worker_heartbeat, worker_progress;

/* --- names, commands and texts (worker_service.c) --- */

/* Limits the names of a worker, because every answer that lists it has them. */
bool worker_names_check(
    const char *const *queues, size_t n_queues, const char *const *types, size_t n_types, struct reeve_error *error);

void worker_command_fill(Reeve__V1__WorkerCommand *out, const struct store_worker_command *command);

/* Returns the text, or NULL if it is empty. Cuts a text that is too long, without splitting a character: its result
 * must not be lost. */
const char *worker_text_cut(const char *text, size_t max);

/* Sets what an answer says of a result, or of progress, with this outcome in the store, without a note. */
void worker_ack_fill(Reeve__V1__ResultAck *out, int64_t id, int64_t token, enum store_ack ack);

/* --- progress (worker_progress.c), which a Report can bring too --- */

/* What an AttemptProgress and a Result have of these: see REPORTED_BY. */
struct reported {
	bool has_progress;
	double progress;
	int64_t first_line;
	Reeve__V1__LoggedLine *const *lines;
	size_t n_lines;
};

#define REPORTED_BY(message)                                                                                           \
	((struct reported){(message)->last_progress_case != 0, (message)->progress, (message)->first_line,                 \
	    (message)->lines, (message)->n_lines})

/* Checks it; `message` is its path in messages, `incarnation` that of the request, or 0. */
bool worker_reported_check(
    const char *message, const struct reported *reported, int64_t incarnation, struct reeve_error *error);

/* Sets progress and lines, of which it cuts and drops what is too long. The lines belong to the call; the caller frees
 * out->lines. */
void worker_reported_fill(struct store_attempt_progress *out, const struct reported *reported);

/* --- Fetches (worker_fetch.c), which a Report can bring too --- */

/* Checks a Fetch, and limits it to what its caller may use. */
bool worker_fetch_check(const struct rpc_call *call, Reeve__V1__FetchRequest *request, struct reeve_error *error);

/* Gives a checked Fetch to the dispatcher. `in_report`: a Report has brought it. */
void worker_fetch_start(struct services *services, struct rpc_call *call, const Reeve__V1__FetchRequest *request,
    bool in_report, fetch_done *done, void *arg);

/* A Fetch answer as a message. */
struct fetch_message {
	Reeve__V1__FetchResponse response;
	Reeve__V1__Assignment *assignments;
	Reeve__V1__WorkerCommand *commands;
};

/* Fills the message. Its strings belong to the answer. */
void fetch_message_fill(struct fetch_message *message, const struct core *core, int64_t incarnation, int64_t fetch_id,
    const struct fetch_answer *answer);

void fetch_message_free(struct fetch_message *message);

#endif
