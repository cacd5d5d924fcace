/*
 * Methods as declarations: the statement, whose head names the fields of the request and of the response
 * (sql/heads.awk), the rules for the request's fields, and what an empty response means.
 *
 *	const struct rpc_entry metric_methods[] = {
 *	    {"List", read_method, RPC_OPERATOR, MAY_READ, METHOD(SQL_METRICS_LIST,
 *	        .rules = {{"category", RULE_NAME_OR_NONE},
 *	            {"limit", RULE_NUMBER, .max = LIMIT_LIST_LONG, .otherwise = LIMIT_LIST}})},
 *	    {0},
 *	};
 */
#ifndef REEVE_MANAGER_SERVICE_METHOD_H
#define REEVE_MANAGER_SERVICE_METHOD_H

#include "manager/service/reading.h"

enum rule_kind {
	RULE_NONE,         /* ends the rules */
	RULE_NAME,         /* 1 to LIMIT_NAME_BYTES without control characters */
	RULE_NAME_OR_NONE, /* the same, or empty */
	RULE_PAGE,         /* the position at which a page begins */
	RULE_NUMBER,       /* from `min` to `max`; 0 means `otherwise` if that is set; values above `cap` mean `cap` */
	RULE_SINCE,        /* a time; 0 means `otherwise` microseconds ago */
};

struct rule {
	const char *field;
	enum rule_kind kind;
	int64_t min, max, otherwise, cap;
};

enum { RULES_MAX = 8 };

/* Reads what a change concerns into this manager's memory again, then calls `done`. */
typedef void method_reloaded(void *arg, const struct reeve_error *error);
typedef void method_reload(struct services *services, int64_t deadline_ms, method_reloaded *done, void *arg);

struct method {
	enum sql_id statement;
	enum sql_id then; /* of a change: reads the response after it; 0: the statement itself returns it */
	/* Of a change of what managers have in memory: the caller's next call finds it there. Otherwise NULL. */
	method_reload *reload;
	struct rule rules[RULES_MAX];
	bool names; /* the fields `queue` and `type` are names or empty; an unknown one is in the `warning` */
	bool quick; /* it reads few rows, however many there are */
	/* A further check of the request, or NULL. */
	bool (*check)(const ProtobufCMessage *request, struct reeve_error *error);
	/* Whether the caller may use what a valid request names, or NULL. */
	bool (*allow)(const struct rpc_identity *identity, const ProtobufCMessage *request, struct reeve_error *error);
	/* Whether a valid request can be served now, or NULL. Only for read_method. */
	bool (*ready)(const struct services *services, struct reeve_error *error);
	/* Checks the request, and returns the statement's @change; or NULL with the problem in *error. */
	char *(*change)(const struct services *services, const struct rpc_call *call, const ProtobufCMessage *request,
	    struct reeve_error *error);
	/* A field of the response: if it is 0 or not set, the answer is NOT_FOUND with this text, in which {NAME} stands
	 * for a field of the request. */
	const char *found, *missing;
	/* Completes the response. It can be refused, with the problem in *error. Or NULL. */
	bool (*complete)(struct reading *reading, struct reeve_error *error);
	/* Handles the result or the error, and ends with method_done or reading_end; or NULL: method_done. */
	reading_done_fn *done;
};

/* A `done` that cuts a page to what fits in an answer, and handles `missing` and `complete`. */
reading_done_fn method_done;

/* A declaration within the table of methods. */
#define METHOD(...) (&(const struct method){__VA_ARGS__})

/* Serve methods whose entries have a struct method. read_method is for statements that change nothing. write_method
 * needs a request id if the statement takes @request_id. */
rpc_method read_method, write_method;

#endif
