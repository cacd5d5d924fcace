/*
 * The log: one line an event on standard error, `2026-01-02T03:04:05.678Z info  manager: listening on tcp://…`.
 * Under systemd (JOURNAL_STREAM) the time is left out and the level is a <N> prefix. Thread-safe; a line is one write.
 */
#ifndef REEVE_COMMON_LOG_H
#define REEVE_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Sets which program's name stands in the lines (kept, not copied) and the least urgent level that is written. */
void log_setup(const char *program, enum log_level level);

/* Changes the least urgent level that is written; at any time, from any thread. */
void log_set_level(enum log_level level);

/* Finds a level by its name, as --log-level takes it. */
bool log_level_parse(const char *name, enum log_level *level);

/* What --log-level is told that it takes. */
#define LOG_LEVELS "error, warn, info or debug"

/* Writes one line. `object` says whom it is about ("worker 12 a/77", "task 5"), may be NULL. Control characters in the
 * text are written as \xNN, so that nobody's input can forge lines. */
void log_line(enum log_level level, const char *object, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Whether it is time to tell again of something that may happen often: at most every ten seconds. *said_ms is when the log was
 * told last, 0 at first; it is set. Times are of the monotonic clock. */
bool log_again(int64_t *said_ms, int64_t now_ms);

#define log_error(object, ...) log_line(LOG_LEVEL_ERROR, object, __VA_ARGS__)
#define log_warn(object, ...) log_line(LOG_LEVEL_WARN, object, __VA_ARGS__)
#define log_info(object, ...) log_line(LOG_LEVEL_INFO, object, __VA_ARGS__)
#define log_debug(object, ...) log_line(LOG_LEVEL_DEBUG, object, __VA_ARGS__)

#endif
