/*
 * The table of commands: one row declares a command's function, or its call, and lists it.
 *
 *	COMMAND(NOUN, VERB, FUNCTION, SUMMARY)   its function runs it
 *	CALL(NOUN, VERB, CALL, SUMMARY)          it makes one call (call.h)
 *
 * The noun is "queue" of `reeve queue set`, or NULL as in `reeve check`; `reeve submit` is also `reeve task submit`.
 *The summary is for the lists of --help: a phrase without a full stop.
 */
#ifndef REEVE_CLIENT_CMD_COMMAND_TABLE_H
#define REEVE_CLIENT_CMD_COMMAND_TABLE_H

#define COMMANDS(COMMAND, CALL)                                                                                        \
	COMMAND("task", "submit", command_submit, "submit a task, or a file of them")                                      \
	COMMAND("task", "wait", command_wait, "wait until tasks have ended")                                               \
	CALL("task", "show", task_show, "show one task with its details and result")                                       \
	COMMAND("task", "logs", command_logs, "show what a task's handlers have logged")                                   \
	COMMAND("task", "list", task_list, "list tasks, newest first")                                                     \
	COMMAND("task", "cancel", command_cancel, "cancel tasks")                                                          \
	COMMAND("task", "discard", command_discard, "end tasks dead, without a retry")                                     \
	COMMAND("task", "retry", command_retry, "run tasks again now")                                                     \
	COMMAND("task", "update", command_update, "change the priority, due time or attempts of tasks")                    \
	COMMAND("task", "purge", command_purge, "delete tasks that have ended, or erase their details")                    \
	COMMAND("task", "fetch", command_fetch, "fetch tasks manually")                                                    \
	COMMAND("task", "report", command_report, "report the outcome of a manually fetched task")                         \
	COMMAND("task", "extend", command_extend, "give a manually fetched task more time")                                \
	COMMAND("queue", "list", queue_list, "count the tasks of each queue and type")                                     \
	CALL("queue", "status", queue_status, "show a queue's state, tasks, batch and workers")                            \
	COMMAND("queue", "progress", queue_progress, "follow a queue's status until all its tasks have ended")             \
	CALL("queue", "describe", queue_describe, "show a queue's settings")                                               \
	COMMAND("queue", "set", queue_set, "change a queue's settings")                                                    \
	CALL("queue", "start", queue_start, "start a stopped or paused queue, or the new batch of a queue")                \
	COMMAND("queue", "stop", queue_stop, "cancel running tasks, end waiting ones dead, end open batches")              \
	CALL("queue", "pause", queue_pause, "start no more tasks; running ones finish")                                    \
	CALL("queue", "resume", queue_resume, "start tasks again")                                                         \
	CALL("queue", "purge", queue_purge, "cancel all waiting tasks")                                                    \
	CALL("queue", "delete", queue_delete, "delete a queue's settings")                                                 \
	CALL("worker", "list", worker_list, "list workers and what they run")                                              \
	COMMAND("worker", "scale", worker_scale, "change how many tasks workers run at the same time")                     \
	COMMAND("worker", "drain", worker_control, "take no more tasks, finish the running ones, end")                     \
	COMMAND("worker", "pause", worker_control, "take no more tasks")                                                   \
	COMMAND("worker", "resume", worker_control, "take tasks again")                                                    \
	COMMAND("worker", "stop", worker_control, "take no more tasks, give back the running ones, end")                   \
	COMMAND("batch", "open", batch_open, "open a batch and print its id")                                              \
	CALL("batch", "close", batch_close, "close a batch: it accepts no more tasks")                                     \
	CALL("batch", "list", batch_list, "list batches, newest first")                                                    \
	COMMAND("batch", "report", batch_report, "show everything about a batch, task by task")                            \
	COMMAND("batch", "wait", batch_wait, "wait until a batch has ended")                                               \
	CALL("callback", "list", callback_list, "list the HTTP calls about batches, sent and pending")                     \
	COMMAND("schedule", "add", schedule_add, "add a schedule: a cron expression, an interval, or manual runs only")    \
	CALL("schedule", "list", schedule_list, "list schedules")                                                          \
	CALL("schedule", "show", schedule_show, "show everything about a schedule, and its next run")                      \
	CALL("schedule", "runs", schedule_runs, "list the runs of a schedule and their outcomes")                          \
	CALL("schedule", "pause", schedule_pause, "do not run a schedule until it is resumed")                             \
	CALL("schedule", "resume", schedule_resume, "run a paused schedule again, from now on")                            \
	CALL("schedule", "run", schedule_run, "run a schedule now, in addition to its scheduled runs")                     \
	COMMAND("schedule", "edit", schedule_edit, "change a schedule")                                                    \
	CALL("schedule", "remove", schedule_remove, "remove a schedule; its tasks stay")                                   \
	COMMAND("pipeline", "define", pipeline_define, "define a pipeline, or replace its definition")                     \
	CALL("pipeline", "list", pipeline_list, "list pipelines by name")                                                  \
	CALL("pipeline", "show", pipeline_show, "show a pipeline with its stages")                                         \
	CALL("pipeline", "status", pipeline_status, "count the live tasks of a pipeline by stage")                         \
	COMMAND("metric", "put", metric_put, "set a metric")                                                               \
	COMMAND("metric", "add", metric_add, "add to a metric")                                                            \
	CALL("metric", "list", metric_list, "list metrics")                                                                \
	COMMAND("token", "create", token_create, "create an access token and print it")                                    \
	CALL("token", "list", token_list, "list access tokens and users, with last use and expiry")                        \
	COMMAND("token", "rotate", token_rotate, "replace an access token by a new one")                                   \
	CALL("token", "revoke", token_revoke, "end an access token, or a user's identity")                                 \
	COMMAND("certs", "init", certs_init, "create a private CA")                                                        \
	COMMAND("certs", "issue", certs_issue, "issue a certificate with a new key")                                       \
	COMMAND("certs", "list", certs_list, "list the certificates that were issued, with expiry")                        \
	COMMAND("certs", "renew", certs_renew, "issue certificates again before they expire")                              \
	COMMAND("certs", "revoke", certs_revoke, "revoke the certificates of a name")                                      \
	COMMAND(NULL, "audit", command_audit, "show what happened, in order")                                              \
	COMMAND(NULL, "errors", command_errors, "show errors in groups")                                                   \
	COMMAND(NULL, "stats", command_stats, "show totals, or counts of executions")                                      \
	COMMAND(NULL, "top", command_top, "show queues, workers and running tasks, live, on the whole terminal")           \
	COMMAND(NULL, "check", command_check, "check Reeve's health, as a plugin for monitoring")                          \
	CALL(NULL, "whoami", whoami, "show who calls: the name of your identity, and its roles")                           \
	COMMAND(                                                                                                           \
	    NULL, "doctor", command_doctor, "report problems of database, managers and workers, and how to solve them")    \
	COMMAND(NULL, "dev", command_dev, "run everything on this machine, with its own PostgreSQL")                       \
	COMMAND(NULL, "completion", command_completion, "print the completion of command lines for a shell")               \
	COMMAND(NULL, "man", command_man, "write the man pages of all commands")                                           \
	COMMAND(NULL, "help", command_help, "show this, or the help of a command")

#endif
