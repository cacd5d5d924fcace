/* Operations of periodic work: statistics, callbacks, maintenance. See op.h. */
#ifndef REEVE_MANAGER_STORE_OPS_JOBS_H
#define REEVE_MANAGER_STORE_OPS_JOBS_H

#include "manager/store/op.h"

/* --- statistics and metrics ------------------------------------------------------------------------------------ */

/* Counts more ended attempts for the hourly statistics, each once, even if other managers try it at the same time. */
struct store_roll {
	struct store_op op;
	/* result */
	bool more; /* there is more to do now */
};
void store_roll(struct store *store, struct store_roll *op);

/* Adds a page of changes to the counts of live and ended tasks; does nothing while another manager does. Also checks
 * for work whose notification was lost. */
struct store_fold {
	struct store_op op;
	/* results */
	bool more;      /* there is more to do now */
	bool callbacks; /* some wait */
	bool inbox;     /* there are tasks to ingest */
};
void store_fold(struct store *store, struct store_fold *op);

struct store_own_counter {
	const char *name;
	int64_t value;
};

/* Writes those of this manager's counters that have changed to the metrics. */
struct store_metrics_own {
	struct store_op op;
	int count;
	const struct store_own_counter *counters;
};
void store_metrics_own(struct store *store, struct store_metrics_own *op);

/* What a manager has done with the tasks of a route. */
struct store_activity_row {
	int route; /* 0: others */
	int64_t submitted, begun, completed, failed, retried, dead, ended;
	const int64_t *waited, *took; /* histograms: `buckets` numbers each */
	int64_t waited_us, took_us;   /* their sums */
};

/* Adds to the history of what managers do, in the current minute and hour. Reports UNKNOWN. */
struct store_activity {
	struct store_op op;
	int count, buckets;
	struct store_activity_row *rows;
};
void store_activity(struct store *store, struct store_activity *op);

/* Samples how many tasks each queue has, unless that has been done in this minute or another manager does so. */
struct store_depths {
	struct store_op op;
	int queues; /* how many have numbers of their own */
};
void store_depths(struct store *store, struct store_depths *op);

/* A number of all managers together: see fleet.sql. */
struct store_fleet_row {
	const char *name, *queue, *type, *word; /* "": none */
	double value;
};

/* Reads the numbers of all managers together. */
struct store_fleet {
	struct store_op op;
	int routes; /* how many have numbers of their own */
	/* results */
	int count;
	struct store_fleet_row *rows;
};
void store_fleet(struct store *store, struct store_fleet *op);

/* --- callbacks ------------------------------------------------------------------------------------------------- */

struct store_callback {
	int64_t id, batch_id, task_id;  /* task_id 0: of the batch */
	const char *event, *url, *site; /* site: the URL's host and port */
	const char *secret, *payload;   /* or NULL */
	int32_t attempt;                /* the number of this try, from 1 */
	int32_t take;                   /* the number of this take; earlier ones may have no outcome */
};

/* The number of tries of a site that are in flight. */
struct store_site {
	const char *site;
	int32_t count;
};

/* Takes callbacks that are due: no other take gets them within lease_ms. Reports UNKNOWN. */
struct store_callbacks_take {
	struct store_op op;
	int limit, site_limit; /* the maximum in total, and of one site, including those in flight: */
	int64_t lease_ms;
	int64_t now_us; /* the manager's estimate of the database's time (core_database_us); 0: none */
	int site_count;
	const struct store_site *sites;
	/* results */
	struct store_callback *callbacks;
	int count;
};
void store_callbacks_take(struct store *store, struct store_callbacks_take *op);

/* Reads the body of a callback for a batch's begin or end. */
struct store_callback_report {
	struct store_op op;
	int64_t batch_id;
	const char *event;
	/* result */
	const char *body; /* NULL: the batch does not exist any more */
};
void store_callback_report(struct store *store, struct store_callback_report *op);

/* Records the outcome of a try. */
struct store_callback_finish {
	struct store_op op;
	int64_t id;
	int32_t take;
	int32_t attempts;     /* the number of tries so far */
	bool delivered, over; /* over: given up; neither: it is tried again after pause_ms */
	int64_t pause_ms;
	int32_t status;    /* of HTTP; 0: there was none */
	const char *error; /* or NULL */
	/* result */
	bool changed; /* this changed it; else another manager had, or tries it again */
};
void store_callback_finish(struct store *store, struct store_callback_finish *op);

/* --- maintenance ----------------------------------------------------------------------------------------------- */

struct store_peer {
	int64_t manager, seq; /* the number of its last heartbeat */
};

/* Records a heartbeat of the manager, and reads the clock. */
struct store_manager_heartbeat {
	struct store_op op;
	int64_t estimate_us; /* the manager's estimate of the database's time; 0: none yet */
	/* results */
	int64_t now_us;
	int64_t ahead_us;    /* while the clock shows less than a manager has seen: furthest estimate; or 0 */
	int64_t set_back_us; /* what the clock showed when it was set back; if unknown, the current time */
	int64_t routes;      /* a fingerprint of those in use */
	const char *queues;  /* the fingerprint of the queues' settings */
	int64_t newest_assignment;
	int schema;               /* the database's version, if it is newer than this program's; else 0 */
	struct store_peer *peers; /* the managers that have not stopped, with this one, in order */
	int peer_count;
};
void store_manager_heartbeat(struct store *store, struct store_manager_heartbeat *op);

/* Records that the manager stops. No store_manager_heartbeat may follow. */
struct store_stop {
	struct store_op op;
};
void store_stop(struct store *store, struct store_stop *op);

/* Notifies the other managers of work. */
struct store_notify {
	struct store_op op;
	char payload[7900]; /* NOTIFY takes less than 8000 bytes */
};
void store_notify(struct store *store, struct store_notify *op);

/* Runs one round of maintenance: creates partitions in advance, drops old ones, deletes old rows. */
struct store_maintenance {
	struct store_op op;
	/* result */
	bool more;          /* some step had a full page: run again soon */
	int step;           /* this and the next two are for the store only */
	char partition[64]; /* the partition of the history that is being dropped */
	int64_t after;
};
void store_maintenance(struct store *store, struct store_maintenance *op);

/* Steps of writing the history's partitions to files before they are dropped. One manager at a time does it: it holds a
 * lock from NEXT to RELEASE, unless its connection breaks. */
enum store_archive_kind {
	STORE_ARCHIVE_NEXT,    /* find the next partition; none: `partition` is empty; this manager may lack the lock */
	STORE_ARCHIVE_PAGE,    /* read its next tasks */
	STORE_ARCHIVE_NOTE,    /* record that its file is durable: it may be dropped */
	STORE_ARCHIVE_RELEASE, /* let another manager archive */
};

struct store_archive {
	struct store_op op;
	enum store_archive_kind kind;
	char partition[64];
	int64_t after;    /* PAGE: only tasks after this id; set to the last one's */
	const char *file; /* NOTE */
	int64_t tasks;
	/* results of PAGE: lines without line ends, valid until `done` returns; of all but RELEASE: lost */
	int count;
	const char **lines;
	bool lost; /* another manager archives */
};
void store_archive(struct store *store, struct store_archive *op);

#endif
