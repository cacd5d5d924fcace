/*
 * A manager for tests of the worker: the real WorkerService over a real socket, with a list of tasks instead of a
 * database. It runs on its own thread and loop. Tests configure it, and read what it has received, under its lock.
 *
 * It remembers which tasks it assigned to each Fetch and assigns them again when the Fetch has `resend` set, as a
 * manager must.
 */
#ifndef REEVE_TESTS_SCRIPTED_MANAGER_H
#define REEVE_TESTS_SCRIPTED_MANAGER_H

#include "common/clock.h"
#include "tests/unit/fake_host.h"

#include <reeve/v1/worker.pb-c.h>
#include <unistd.h>

enum {
	SCRIPT_TASKS_MAX = 20000,
	SCRIPT_CALLS_MAX = 64,
	SCRIPT_COMMANDS_MAX = 16,
	SCRIPT_TOKEN = 1000000, /* a task's token is its id plus this */
	SCRIPT_TIMEOUT_MS = 20 * 1000,
};

enum script_state { SCRIPT_QUEUED, SCRIPT_ASSIGNED, SCRIPT_DONE };

/* A task and its result. */
struct script_task {
	char type[64], key[64], queue[64];
	char *details;
	int64_t timeout_ms, expires_in_ms, resting_ms;
	enum script_state state;
	int64_t incarnation, fetch_id; /* the Fetch to which it was assigned */
	int64_t assigned_ms;
	int deliveries;             /* how often it was in an answer */
	int reports;                /* how often a report had its result */
	Reeve__V1__Outcome outcome; /* of the last report */
	char *result, *error, *remark, *stack, code[64];
	char *seen;     /* the last remark while it ran */
	int times_seen; /* how many there were */
	double progress;
	char *logged;          /* its log lines, each with a newline; NULL: none */
	int64_t next_line;     /* the number of the next one; 0: there was none */
	int64_t lines_missing; /* how many were left out before others */
	int64_t run_ms, retry_in_ms;
	int64_t reported_ms;
	Reeve__V1__ResultStatus status; /* the result's ack; UNSPECIFIED: ACCEPTED */
	int acks_missing;               /* this many reports of it get no ack first */
	int acks_later;                 /* after these, this many get LATER */
};

struct script_parked {
	char limited[64]; /* the first queue of queue_slots; "": none */
	uint32_t limited_slots;
	struct rpc_call *call; /* NULL: free */
	int64_t incarnation, fetch_id, until_ms;
	uint32_t slots;
};

struct script_beat {
	int64_t incarnation, seq, highest_fetch_id, at_ms;
	size_t held, waiting;
	int64_t first_held, completed, failed;
	uint32_t running, concurrency;
	Reeve__V1__WorkerMode state;
};

struct script {
	char directory[64], url[128];
	struct fake_host host;

	/* Configuration. */
	uint32_t lease_ms, heartbeat_ms, max_result_bytes;
	reeve_status register_code, fetch_code, report_code;    /* not OK: calls fail with it */
	int register_failures, fetch_failures, report_failures; /* how many calls fail */
	const char *fetch_problem;                              /* … with this message, if it is set */
	int64_t invalid_task;                                   /* a report with its result is INVALID_ARGUMENT; 0: none */
	bool always_invalid;                                    /* … even if its outcome is FATAL */
	bool hold_reports;                                      /* reports are not answered */
	bool delay_reports;                                     /* the next report is answered once this is false again */
	bool hold_fetches;                                      /* Fetches are not answered, but get tasks */
	bool hold_heartbeats;                                   /* heartbeats are not answered */
	bool delay_heartbeats;                                  /* … until this is false again; then without commands */
	bool paused;                                            /* no tasks are assigned */
	int wrong_fetches;                                      /* this many answers name another Fetch */
	int wrong_incarnations;                                 /* … or another incarnation */
	bool lost;                                              /* heartbeats are answered lost, until it registers again */
	int told_lost;                                          /* how many answers to heartbeats said so */
	Reeve__V1__WorkerCommand commands[SCRIPT_COMMANDS_MAX];
	size_t n_commands;                /* sent with every answer */
	bool commands_in_heartbeats_only; /* they are sent only to heartbeats */

	/* State, for tests to read. */
	/* By id, from 1. The array is valid until the next script_init, its strings until script_free. Not part of the
	 * struct, because the end of each test searches all static memory for leaks. */
	struct script_task *tasks;
	int n_tasks, n_done;
	int64_t extend_max_ms;                   /* maximum time granted by an Extend; 0: none */
	int extend_delay_ms;                     /* … and how long its answer takes */
	Reeve__V1__ResultStatus progress_status; /* the ack of what running handlers report */
	int progress_calls;
	int registers, leaves, extends, fetches, fetches_again, reports, heartbeats, parked_now, parked_max;
	int64_t idle_first_ms, idle_last_ms; /* idle_since_start_ms of the first Fetch, and of the last */
	int open, open_max; /* assigned and without a result yet; parked and carried slots are not counted */
	int64_t incarnation, first_fetch_of_incarnation, highest_fetch;
	size_t report_max; /* maximum number of results in one report */
	uint32_t registered_concurrency;
	char registered_types[256], registered_queues[256], registered_name[256];
	struct script_beat beat; /* the last heartbeat */
	int64_t renewed_ms;      /* when the last answered Heartbeat or Register arrived: the lease began earlier */
	int64_t previous;        /* from the last Register */
	struct script_parked parked[SCRIPT_CALLS_MAX];
	struct rpc_call *delayed_heartbeat;
	struct rpc_call *delayed_call; /* a delayed report … */
	Reeve__V1__ReportRequest *delayed;
	struct rpc_call *held_calls[SCRIPT_CALLS_MAX];
	int n_held_calls;
};

void script_lock(struct script *script);

void script_unlock(struct script *script);

/* Initializes the script, which is static, but does not start it. */
void script_init(struct script *script);

/* Starts serving; may be called again after script_stop. */
void script_start(struct script *script);

/* Ends the server: open calls get no answer. Tasks keep their state. */
void script_stop(struct script *script);

void script_free(struct script *script);

/* Queues a task and returns its id. Other fields may be set before it is assigned, under the lock. */
int64_t script_add(struct script *script, const char *type, const char *details);

/* Sends a worker command with every answer from now on. */
void script_command(struct script *script, Reeve__V1__WorkerCommandKind kind, int64_t task_id, uint32_t value);

/* Waits until a condition on the script is true; checks it under the lock. Returns false if it did not become true
 * within SCRIPT_TIMEOUT_MS. */
#define script_wait(script, condition)                                                                                 \
	({                                                                                                                 \
		int64_t script_until_ms = clock_monotonic_ms() + SCRIPT_TIMEOUT_MS;                                            \
		bool script_holds;                                                                                             \
		while (script_lock(script), script_holds = (condition), script_unlock(script),                                 \
		    !script_holds && clock_monotonic_ms() < script_until_ms)                                                   \
			usleep(1000);                                                                                              \
		script_holds;                                                                                                  \
	})

#endif
