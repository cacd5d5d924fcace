/* Operations on workers. See op.h. */
#ifndef REEVE_MANAGER_STORE_OPS_WORKERS_H
#define REEVE_MANAGER_STORE_OPS_WORKERS_H

#include "common/credential.h"
#include "manager/store/op.h"

/* Registers a worker. */
struct store_register {
	struct store_op op;
	const char *name, *host, *version;
	int32_t pid, concurrency;
	int queue_count, type_count;
	const char *const *queues, *const *types;
	int64_t lease_ms;  /* the lease it gets */
	int64_t previous;  /* the incarnation that has ended, according to the worker; 0: none */
	bool manual;       /* a pull client: it sends no heartbeats */
	int64_t identity;  /* that registers it; 0: an admin */
	const char *actor; /* the caller, for the audit */
	int64_t signer;    /* the identity of its attempts' credentials; 0: it is not in the table */
	/* results */
	int64_t incarnation;                          /* 0: another process has a living worker of this name: */
	uint8_t credential_key[CREDENTIAL_KEY_BYTES]; /* of the incarnation (common/credential.h) */
	char other_host[256];                         /* both empty: it is another identity's */
	int32_t other_pid;
};
void store_register(struct store *store, struct store_register *op);

/* Ends an incarnation that leaves. */
struct store_leave {
	struct store_op op;
	int64_t incarnation;
	const char *reason, *actor;
};
void store_leave(struct store *store, struct store_leave *op);

/* A worker command. */
struct store_worker_command {
	char kind[12];          /* cancel, drain, pause, resume, stop, concurrency */
	int64_t task_id, token; /* of a cancel's attempt; 0: the command is for the worker itself */
	int32_t value;          /* concurrency: the number of slots */
};

/* Checks whether an incarnation lives. */
struct store_poll {
	struct store_op op;
	int64_t incarnation;
	/* results */
	bool lost;        /* or unknown */
	int64_t identity; /* that registered it; 0: an admin */
};
void store_poll(struct store *store, struct store_poll *op);

/* Reads the current commands for an incarnation. */
struct store_worker_commands {
	struct store_op op;
	int64_t incarnation;
	/* results */
	struct store_worker_command *commands;
	int command_count;
};
void store_worker_commands(struct store *store, struct store_worker_commands *op);

struct store_beat {
	int64_t incarnation, seq;
	int64_t lease_ms; /* the lease it got at its registration */
};

/* Reads the living incarnations and the sequence numbers of their heartbeats. */
struct store_watch {
	struct store_op op;
	/* results */
	struct store_beat *beats;
	int count;
};
void store_watch(struct store *store, struct store_watch *op);

/* Marks incarnations lost unless they have sent heartbeats since. */
struct store_lose {
	struct store_op op;
	int count;
	const struct store_beat *beats; /* as last read */
	/* results */
	int64_t *lost;
	int lost_count;
};
void store_lose(struct store *store, struct store_lose *op);

/* How many of a worker's attempts of a queue and batch completed and failed. */
struct store_worker_count {
	int64_t incarnation, batch_id, completed, failed;
	const char *queue;
};

/* Renews a worker's lease, and returns the commands for it. */
struct store_heartbeat {
	struct store_op op;
	int64_t incarnation, seq;
	size_t carries;            /* bytes that stay in memory until it is done */
	const char *mode;          /* running, paused, draining: a constant string */
	int32_t concurrency;       /* 0: unchanged; −1: it has no slots */
	int64_t completed, failed; /* attempts */
	int type_count;            /* the types it runs now; 0: unchanged */
	const char *const *types;
	int count_count;
	const struct store_worker_count *counts; /* those that have changed */
	/* results */
	bool renewed;   /* it raised the sequence number */
	bool overtaken; /* a later one has arrived: this one has no effect */
	bool locked;    /* another transaction has locked the worker's row: nothing was renewed */
	bool lost;      /* the incarnation has ended, or never existed */
	struct store_worker_command *commands;
	int command_count;
};
void store_heartbeat(struct store *store, struct store_heartbeat *op);

#endif
