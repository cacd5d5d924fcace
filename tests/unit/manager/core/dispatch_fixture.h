/* A core with one route, for the tests of the dispatcher. */
#ifndef REEVE_TESTS_UNIT_MANAGER_CORE_DISPATCH_FIXTURE_H
#define REEVE_TESTS_UNIT_MANAGER_CORE_DISPATCH_FIXTURE_H

#include "manager/core/dispatch.h"
#include "tests/unit/manager/core/fake_answers.h"

extern struct core *core;
extern int route;

/* Creates a core that knows one route with one stream, whose first page has `count` tasks. */
void begin_with(const struct core_options *options, int count);
void begin(int count);

/* Announces a waiting task to the ready cache. */
void note(int64_t id, int route_id, int32_t priority, int32_t bytes);

#endif
