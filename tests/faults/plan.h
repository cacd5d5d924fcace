/* What tasks of pipelines do, stage by stage: `plan=…`, as deed.h has it, drawn at random for the stages of plans.py.
 */
#ifndef TESTS_FAULTS_PLAN_H
#define TESTS_FAULTS_PLAN_H

#include <stdint.h>

enum { PLAN_BYTES = 128 };

/* Writes one to `plan`, which has PLAN_BYTES. `draw` gives a number below the one that it is given. */
void plan_draw(uint64_t (*draw)(void *arg, uint64_t below), void *arg, char *plan);

#endif
