/* The log lines of a task, as its handlers write them. */
#ifndef REEVE_CLIENT_LOGS_H
#define REEVE_CLIENT_LOGS_H

#include <reeve/client.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct logs {
	struct reeve_client *client;
	int64_t id;
	FILE *out;
	bool json;        /* an object for each line, instead of texts */
	bool named;       /* each line begins with the task's id */
	bool progress;    /* also the progress and the remark, when they change */
	uint32_t newest;  /* only so many of the lines that there are at first; 0: all */
	int64_t after;    /* the number of the last line that was printed; 0: none */
	uint32_t attempt; /* … and its attempt */
	bool has_shown;   /* a progress was printed: */
	double shown;
	char *shown_remark;           /* owned; NULL: none */
	Reeve__V1__TaskStatus status; /* of the task */
};

/* Prints the lines that are new, and sets the status. False: *failure has the reason. */
bool logs_print(struct logs *logs, struct reeve_failure *failure);

/* Frees what belongs to it. */
void logs_clear(struct logs *logs);

#endif
