/*
 * The log: one line per event on standard error, `2026-01-02T03:04:05.678Z info  manager: listening on tcp://…`. Under
 * systemd (JOURNAL_STREAM) lines have no time, and the level is a <N> prefix. Thread-safe: each line is one write.
 *
 * Other formats have the same as fields: time, level, program, object (if there is one), message; also under systemd,
 * after the prefix.
 */
#ifndef REEVE_COMMON_LOG_H
#define REEVE_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Sets the program's name in the lines (kept, not copied) and the least urgent level that is written. */
void log_setup(const char *program, enum log_level level);

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

/* The names of the formats, as the choices of --log-format. */
#define LOG_FORMATS "text|logfmt|json"

/* Sets the format by one of these names; without it, lines are text. Call it before there are threads. */
void log_set_format(const char *name);

/* Changes the least urgent level that is written. Any thread, at any time. */
void log_set_level(enum log_level level);

/* The names of the levels, as the choices of --log-level. */
#define LOG_LEVELS "error|warn|info|debug"

/* Returns the level of one of these names. */
enum log_level log_level_named(const char *name);

/* Writes one line. `object` names what it is about ("worker 12 a/77", "task 5") and may be NULL. Control characters are
 * written as \xNN, so that input cannot forge lines. */
void log_line(enum log_level level, const char *object, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Limits messages about frequent events to one in ten seconds. Returns true if it is time for one, and then sets
 * *logged_ms, the time of the last one, which is 0 at first. Times are monotonic, in milliseconds. */
bool log_again(int64_t *logged_ms, int64_t now_ms);

#define log_error(object, ...) log_line(LOG_LEVEL_ERROR, object, __VA_ARGS__)
#define log_warn(object, ...) log_line(LOG_LEVEL_WARN, object, __VA_ARGS__)
#define log_info(object, ...) log_line(LOG_LEVEL_INFO, object, __VA_ARGS__)
#define log_debug(object, ...) log_line(LOG_LEVEL_DEBUG, object, __VA_ARGS__)

#endif
