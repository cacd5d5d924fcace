/* Operations on identities. See op.h. */
#ifndef REEVE_MANAGER_STORE_OPS_ACCESS_H
#define REEVE_MANAGER_STORE_OPS_ACCESS_H

#include "manager/store/op.h"

enum { STORE_HASH_BYTES = 32 };

/* An identity; one with older secrets that are valid, too, is listed once for each. */
struct store_identity {
	int64_t id;
	const char *name;
	const char *rights;  /* JSON: the contract's message Rights */
	const uint8_t *hash; /* of a secret: STORE_HASH_BYTES; or NULL */
	bool certificate;    /* of callers with a certificate of this name */
	int64_t uid;         /* of a local user; −1: not */
	int64_t until_us;
};

/* Reads all valid identities, if any has changed since the read that had this fingerprint. */
struct store_identities {
	struct store_op op;
	const char *known; /* the fingerprint; "": none */
	/* results */
	bool changed;                      /* otherwise there is nothing else */
	struct store_identity *identities; /* by id */
	int count;
	const char *fingerprint;
	const uint8_t *key; /* of credentials, */
	int key_bytes;      /* and its length */
};
void store_identities(struct store *store, struct store_identities *op);

/* Records when identities were last used. */
struct store_identity_uses {
	struct store_op op;
	int count;
	const int64_t *ids;
	int64_t time_us;
};
void store_identity_uses(struct store *store, struct store_identity_uses *op);

/* Finds a task and a batch that are another identity's. */
struct store_foreign {
	struct store_op op;
	const char *owner; /* the identity's name */
	int task_count, batch_count;
	const int64_t *tasks, *batches;
	/* results */
	int64_t task, batch; /* 0: none */
};
void store_foreign(struct store *store, struct store_foreign *op);

#endif
