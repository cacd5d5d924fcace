/* The texts of a task to submit. */
#ifndef REEVE_COMMON_TASK_TEXTS_H
#define REEVE_COMMON_TASK_TEXTS_H

#include <reeve/v1/task.pb-c.h>

/* Returns why a text of the task other than its details is invalid, as a phrase to follow the name of *field, or NULL. Texts
 * may be NULL. Programs that submit and managers check the same. */
const char *task_text_problem(const Reeve__V1__TaskSpec *task, const char **field);

/* Returns why a text is no W3C traceparent, as such a phrase, or NULL. */
const char *task_traceparent_problem(const char *text);

#endif
