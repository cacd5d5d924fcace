/* Checks of requests. Each returns true, or false with the field and the problem in *error. */
#ifndef REEVE_MANAGER_SERVICE_CHECK_H
#define REEVE_MANAGER_SERVICE_CHECK_H

#include "common/error.h"
#include "common/limits.h"
#include "manager/store/store.h"

#include <reeve/v1/task.pb-c.h>
#include <stdint.h>

/* Checks a list of task ids: 1 to LIMIT_CALL_TASKS, all positive. */
bool check_ids(const int64_t *ids, size_t count, struct reeve_error *error);

/* Checks a name: up to LIMIT_NAME_BYTES without control characters. */
bool check_name(const char *field, const char *name, bool may_be_empty, struct reeve_error *error);

/* Checks the source of tasks: the actor of a call, or the name of an identity. */
bool check_source(const char *field, const char *source, struct reeve_error *error);

/* Checks a list of up to LIMIT_ACCEPTED names. */
bool check_names(const char *field, const char *const *names, size_t count, struct reeve_error *error);

/* Checks a text for people that the audit keeps: up to LIMIT_REASON_BYTES. */
bool check_text(const char *field, const char *text, struct reeve_error *error);

/* Checks the URL of callbacks: http or https, with a host, without a user name, up to 2,048 bytes. */
bool check_callback_url(const char *field, const char *url, struct reeve_error *error);

/* Checks the secret that signs callbacks: 1 to 512 bytes of text, or "whsec_" and base64. */
bool check_callback_secret(const char *field, const char *secret, struct reeve_error *error);

/* Checks the position at which a page begins: up to 200 bytes. */
bool check_page(const char *page, struct reeve_error *error);

bool check_range(const char *field, int64_t value, int64_t min, int64_t max, struct reeve_error *error);

#endif
