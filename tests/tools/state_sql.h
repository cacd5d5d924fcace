/*
 * What the parts of state-table have in common: the manager's statements, run one at a time on a task of the test, and
 * the checks. A statement that fails ends the program with 2. One thread.
 */
#ifndef REEVE_TESTS_STATE_SQL_H
#define REEVE_TESTS_STATE_SQL_H

#include <libpq-fe.h>
#include <sql/sql.h>
#include <stdbool.h>

extern PGconn *db;                 /* the connection that is meant where none is named */
extern PGconn *other;              /* the one that waits */
extern char trying[200];           /* what the messages are about */
extern int failures, checks;       /* so far */
extern int fetches;                /* numbers for Fetches and keys: each is used once */
extern const char *worker, *route; /* a registered worker, and the route of all tasks */

struct task {
	const char *id;
	const char *version; /* last_updated */
	const char *token;   /* of the attempt that runs or ended last; NULL: there was none */
	const char *key;
};

/* Texts that live until forget_texts. */
__attribute__((format(printf, 1, 2))) const char *text(const char *format, ...);
void forget_texts(void);

/* Says what is wrong, and counts it; `expect` does so if the texts differ. */
__attribute__((format(printf, 1, 2))) void wrong(const char *format, ...);
void expect(const char *what, const char *want, const char *got);

/* A connection with the manager's settings. */
PGconn *connection(const char *conninfo);

/* Runs a statement with text parameters: RUN(pg, SQL_…, "1", …). The caller clears the answer. */
PGresult *run(PGconn *pg, enum sql_id id, const char *const *values, size_t count);
#define VALUES(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)
#define RUN(pg, id, ...) run(pg, id, VALUES(__VA_ARGS__))

/* Runs one without parameters. */
void plainly(PGconn *pg, enum sql_id id);

/* The answer itself, if it is a good one. */
PGresult *good(PGconn *pg, PGresult *result, const char *what);

/* Clears an answer; how many rows it had. */
int rows_of(PGresult *result);

/* The first value of a query of the test's own on `db`; "" if there is none. */
__attribute__((format(printf, 1, 2))) const char *ask(const char *format, ...);

/* Reads the version anew. */
void refresh(struct task *t);

/* The new task's id; "" if the key was taken, "none" if the request had come before. */
const char *submit(const char *request, const char *key, const char *max_attempts);

/* A new task that waits, with a key. */
struct task submitted(const char *max_attempts);

/* Claims one or two tasks by one Fetch; buffer in ms beyond the 60 s of their time-out. How many it won. */
int claim_for(PGconn *pg, const char *incarnation, const struct task *t, const struct task *too, const char *buffer);

/* The same for our worker on `db`; takes the token. */
int claim(struct task *t, const struct task *too, const char *buffer);

/* How many attempts they ended. */
int complete(PGconn *pg, const struct task *t, const char *token);
int end_attempt(PGconn *pg, const struct task *t, const char *token, const char *outcome);

/* Whether it was marked now; how many tasks were ended. */
bool cancel_mark(PGconn *pg, const struct task *t);
/* The same for an end as dead. */
bool kill_mark(PGconn *pg, const struct task *t);

/* Has it started again; whether it was marked now. */
bool restart_mark(PGconn *pg, const struct task *t);

/* Submits a version that is newer than any before; whether it was taken. */
int submit_newer(PGconn *pg, const struct task *t);

int cancel_waiting(PGconn *pg, const struct task *t);

/* "" if there is no such task; two, if it is in both tables. */
const char *status_of(const struct task *t);

/* How many rows of a table speak of the task. */
const char *count(const char *table, const struct task *t);

/* That the journal's rows of this task are as they should be. */
void expect_journal(const struct task *t);

/* Looks for expired attempts: is this one among them? Then sets the journal's expiries anew. */
bool found_expired(const struct task *t);
void advance_expiries(void);

/* What the checks that follow are about. */
void begin_case(const char *name);

/* Lets the other connection run a statement, and returns when it waits for a lock of ours: START(SQL_…, "1", …). */
void start_waiting(enum sql_id id, const char *const *values, size_t n);
#define START(id, ...) start_waiting(id, VALUES(__VA_ARGS__))

/* Commits, and the other connection goes on: its answer, good or bad. */
PGresult *let_go_anyhow(void);
/* The same where it must be good. */
PGresult *let_go(void);

/* Lets two connections want the same row: of tasks; of batches and queues. */
void try_locks(const char *conninfo);
void try_batches(const char *conninfo);

#endif
