/*
 * What the handler of an attempt has reported while it runs, and no manager has acknowledged: its progress, its remark
 * and its log lines, of which the oldest are dropped. Handlers add to it on any thread; progress.c sends it about once
 * a second; what is left at the end goes with the result.
 */
#ifndef REEVE_WORKER_NEWS_H
#define REEVE_WORKER_NEWS_H

#include <pthread.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct news_line {
	struct news_line *prev, *next;
	int64_t at_ms; /* monotonic */
	size_t length;
	char text[];
};

struct news {
	pthread_mutex_t lock; /* guards all; the worker's lock is taken before it, if both are */
	bool sealed;          /* the attempt has ended: nothing changes any more */
	double progress;      /* -1: none */
	char *remark;         /* NULL: none */
	bool remarked;        /* the handler has set or removed a remark */
	bool remark_new;      /* no manager has it */
	struct news_line *lines;
	size_t count, bytes;
	int64_t next;    /* the number of the next line */
	int64_t sent_ms; /* when it was last sent; monotonic */
	/* Once sealed: the lines as the result has them. */
	Reeve__V1__LoggedLine *logged, **logged_pointers;
};

struct news *news_create(void);
void news_free(struct news *news); /* NULL is allowed */

/* Add to it, without invalid UTF-8. news_progress sets both at once, so that one message has both: the percentage, at
 * most 100 (less than 0, NaN: it stays), and the remark (NULL: it stays). news_remark with NULL removes the remark. A
 * remark is cut at its limit. A text is split into its lines, each cut at the limit. */
void news_progress(struct news *news, double percent, const char *remark);
void news_remark(struct news *news, const char *remark);
void news_log(struct news *news, const char *text, size_t length);

/* Fills in `message` with copies of what is new, if it was not sent within the last second. Sets *wait to true if it
 * was. Returns the bytes of it; 0: there is nothing. news_clear_message frees the copies. */
size_t news_compose(struct news *news, Reeve__V1__AttemptProgress *message, int64_t now_ms, bool *wait);
void news_clear_message(Reeve__V1__AttemptProgress *message);

/* Drops what a manager has acknowledged. */
void news_acknowledged(struct news *news, const Reeve__V1__AttemptProgress *message);

/* Ends it, and adds what is left to the result, which points into it. *remark is replaced by the last one. Returns
 * about how many bytes the lines have. May be called again. */
size_t news_seal(struct news *news, Reeve__V1__Result *result, char **remark);

#endif
