/*
 * Shared by the parts of state-table: the manager's statements, run one at a time on the test's tasks, and the checks.
 * If a statement fails, the program exits with 2. One thread.
 */
#ifndef REEVE_TESTS_STATE_SQL_H
#define REEVE_TESTS_STATE_SQL_H

#include <libpq-fe.h>
#include <sql/sql.h>
#include <stdbool.h>

extern PGconn *db;                 /* the connection that functions without one use */
extern PGconn *other;              /* the connection that waits */
extern char trying[200];           /* the subject of the messages */
extern int failures, checks;       /* so far */
extern int fetches;                /* numbers for Fetches and keys, each used once */
extern const char *worker, *route; /* a registered worker, and the route of all tasks */

struct task {
	const char *id;
	const char *version; /* last_updated */
	const char *token;   /* of the attempt that runs or ended last; NULL: there was none */
	const char *key;
};

/* Formats a string that lives until forget_texts. */
__attribute__((format(printf, 1, 2))) const char *text(const char *format, ...);
void forget_texts(void);

/* `wrong` reports a difference and counts it; `expect` does so if the strings differ. */
__attribute__((format(printf, 1, 2))) void wrong(const char *format, ...);
void expect(const char *what, const char *want, const char *got);

/* Opens a connection with the manager's settings. */
PGconn *connection(const char *conninfo);

/* Runs a statement with text parameters: RUN(pg, SQL_…, "1", …). The caller clears the result. */
PGresult *run(PGconn *pg, enum sql_id id, const char *const *values, size_t count);
#define VALUES(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)
#define RUN(pg, id, ...) run(pg, id, VALUES(__VA_ARGS__))

/* Runs a statement without parameters. */
void plainly(PGconn *pg, enum sql_id id);

/* Returns the result itself if it is not an error; otherwise exits with 2. */
PGresult *good(PGconn *pg, PGresult *result, const char *what);

/* Clears a result and returns how many rows it had. */
int rows_of(PGresult *result);

/* Returns the first value of a query of the test's own on `db`; "" if there is none. */
__attribute__((format(printf, 1, 2))) const char *ask(const char *format, ...);

/* The same for a query with one parameter, a string that is always the same one: prepared at its first use. */
const char *ask_about(const char *query, const char *value);

/* Reads the task's version again. */
void refresh(struct task *t);

/* Submits a task and returns its id; "" if the key was taken, "none" if the request was a repeated one. */
const char *submit(const char *request, const char *key, const char *max_attempts);

/* Submits a task without a key and returns its id. */
const char *submit_by(enum sql_id statement);

/* Submits a task with a key, which then waits. */
struct task submitted(const char *max_attempts);

/* Claims one or two tasks with one Fetch and returns how many it won. `buffer`: the milliseconds that an attempt has
 * beyond its timeout of 60 s. */
int claim_for(PGconn *pg, const char *incarnation, const struct task *t, const struct task *too, const char *buffer);

/* The same for our worker on `db`; sets the token. */
int claim(struct task *t, const struct task *too, const char *buffer);

/* Return how many attempts they ended. */
int complete(PGconn *pg, const struct task *t, const char *token);

/* The same, with `plain` first: SQL_COMPLETE or SQL_COMPLETE_ONE. */
int complete_by(PGconn *pg, enum sql_id plain, const struct task *t, const char *token);
int end_attempt(PGconn *pg, const struct task *t, const char *token, const char *outcome);

/* Returns true if the task is marked now. */
bool cancel_mark(PGconn *pg, const struct task *t);
/* The same for an end as dead. */
bool discard_mark(PGconn *pg, const struct task *t);

/* Requests a restart, of a task that hangs or not; returns true if the task is marked now. */
bool restart_mark(PGconn *pg, const struct task *t, bool hanged);

/* Submits a version that is newer than all before; returns whether it was accepted. */
int submit_newer(PGconn *pg, const struct task *t);

int cancel_waiting(PGconn *pg, const struct task *t);

/* Returns "" if there is no such task, and both statuses if it is in both tables. */
const char *status_of(const struct task *t);

/* Returns everything that the database has about a task, as JSON; its events in the audit, a line each; its attempt. */
const char *everything(const struct task *t);
const char *audit(const struct task *t);
const char *attempt_of(const struct task *t);

/* Returns how many rows of a table are about the task. */
const char *count(const char *table, const struct task *t);

/* Checks the journal's rows of this task. */
void expect_journal(const struct task *t);

/* found_expired returns true if a query for expired attempts finds this one. advance_expiries then updates the
 * journal's expiries. */
bool found_expired(const struct task *t);
void advance_expiries(void);

/* Sets the subject of the checks that follow. */
void begin_case(const char *name);

/* Starts a statement on the other connection, and returns when it waits for a lock of ours: START(SQL_…, "1", …). */
void start_waiting(enum sql_id id, const char *const *values, size_t n);
#define START(id, ...) start_waiting(id, VALUES(__VA_ARGS__))

/* Commits, so that the other connection continues; returns its result, which may be an error. */
PGresult *let_go_anyhow(void);
/* The same, but the result must not be an error. */
PGresult *let_go(void);

/* Test two connections that want the same row: of tasks; of batches and queues. */
void try_locks(const char *conninfo);
void try_batches(const char *conninfo);

#endif
