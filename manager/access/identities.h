/*
 * The identities in memory. They are loaded at the start, and again after each change by a call, before its caller is
 * answered, and within a second after other changes of the table, at once after a notification. The table is
 * authoritative.
 *
 * A caller can use an identity object until it has ended: when its row is deleted, revoked or changed, or its time is
 * over. After a rotation each of the two secrets has an object.
 */
#ifndef REEVE_MANAGER_ACCESS_IDENTITIES_H
#define REEVE_MANAGER_ACCESS_IDENTITIES_H

#include "common/access_token.h"
#include "common/credential.h"
#include "common/rpc/server.h"
#include "manager/jobs/jobs.h"
#include "manager/store/store.h"

#include <reeve/v1/token.pb-c.h>

struct identity {
	struct rpc_identity rpc;
	int64_t id; /* in the table; 0: not in the table */
	char *name;
	Reeve__V1__Rights *rights; /* NULL: all */
	int64_t until_us;          /* when it ends; STORE_TIME_NEVER: not by itself */
	bool certificate;          /* of callers whose certificate has the URI reeve://NAME */
	int64_t uid;               /* otherwise: of this user; −1: of an access token, with this hash: */
	uint8_t hash[ACCESS_HASH_BYTES];
	bool listed;                /* while identities are loaded: its row still exists */
	struct identity *next;      /* of all; or of those of attempts: */
	struct identity *prev, *of; /* `of`: of its worker; NULL: it is not an attempt's */
	struct identities *all;
	struct credential attempt;
	bool bound;        /* all of its calls need the attempt */
	int64_t denied_ms; /* when a denied call of it was last logged; 0: never */
};

struct identities;

struct identities_host {
	int64_t (*database_us)(void *clock); /* returns the database's time; 0: it is not known yet */
	void *clock;
	void (*ended)(void *arg); /* some identities have ended */
	void (*read)(void *arg);  /* they have been read again */
	void *arg;
};

struct identities *identities_create(struct store *store, struct jobs *jobs, const struct identities_host *host);
void identities_destroy(struct identities *identities);

/* Returns whether they have been loaded. */
bool identities_loaded(const struct identities *identities);

/* Loads those of now, then calls `done`. */
typedef void identities_done(void *arg, const struct reeve_error *error);
void identities_reload(struct identities *identities, int64_t deadline_ms, identities_done *done, void *arg);

/* Returns whether they have been read since a time of the monotonic clock. identities_read_soon reads them within a
 * second. */
bool identities_read_since(const struct identities *identities, int64_t at_ms);
void identities_read_soon(struct identities *identities);

/* Return the valid identity of a token, of a user, or of a certificate with this URI; NULL: there is none. */
struct identity *identities_by_token(struct identities *identities, const char *token, size_t length);
struct identity *identities_by_user(struct identities *identities, uid_t uid);
struct identity *identities_by_certificate(struct identities *identities, const char *uri);

/* Returns whether a certificate's URI names an identity (reeve://NAME), which need not exist. NULL is allowed. */
bool identities_names(const char *uri);

/* Reads a credential (common/credential.h). Returns false if it is not valid; then its identity may be −1. */
bool identities_read_credential(
    const struct identities *identities, const char *text, size_t length, struct credential *credential);

/* Returns a valid identity by its number, or NULL. */
struct identity *identities_by_id(struct identities *identities, int64_t id);

/* Creates the identity of an attempt, whose worker has the identity `of`, with these roles and one reference, for the
 * caller. It ends with that one. */
struct identity *identity_create_attempt(
    struct identities *identities, struct identity *of, const struct credential *attempt, uint32_t roles);

/* Creates an identity that is not in the table, with one reference, for the caller. It may do everything. */
struct identity *identity_create_admin(const char *name);

/* Removes a reference. */
void identity_release(struct identity *identity);

#endif
