/* Random plans of tasks in pipelines: `plan=…` (script.h), for the stages of plans.py. */
#ifndef TESTS_FAULTS_PLAN_H
#define TESTS_FAULTS_PLAN_H

#include <stdint.h>

enum { PLAN_BYTES = 128 };

/* Writes a random plan to `plan`, which has PLAN_BYTES. `draw` returns a random number below `below`. */
void plan_draw(uint64_t (*draw)(void *arg, uint64_t below), void *arg, char *plan);

#endif
