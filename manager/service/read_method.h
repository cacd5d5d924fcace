/*
 * Methods that only read, declared: the statement, which names the request's and the response's fields in its head (sql/heads.awk),
 * and what the request's fields must be.
 *
 *	static const struct read_method list = {
 *	    SQL_METRICS_LIST,
 *	    .rules = {{"category", RULE_NAME_OR_NONE}, {"limit", RULE_NUMBER, .max = 10000, .otherwise = 1000}},
 *	};
 *	const struct rpc_entry metric_methods[] = {{"List", read_method, RPC_OPERATOR, &list}, {0}};
 */
#ifndef REEVE_MANAGER_SERVICE_READ_METHOD_H
#define REEVE_MANAGER_SERVICE_READ_METHOD_H

#include "manager/service/reading.h"

enum rule_kind {
	RULE_NONE,         /* ends the rules */
	RULE_NAME,         /* text: 1 to 255 bytes without control characters */
	RULE_NAME_OR_NONE, /* the same, or empty */
	RULE_PAGE,         /* text: where a page begins */
	RULE_NUMBER,       /* from `min` to `max`; 0 stands for `otherwise`, if that is given, and what is above `cap` for `cap` */
	RULE_SINCE,        /* a time; 0 stands for `otherwise` microseconds ago */
};

struct rule {
	const char *field;
	enum rule_kind kind;
	int64_t min, max, otherwise, cap;
};

enum { RULES_MAX = 8 };

/* What the fields `queue` and `type`, where the request has them, must name. */
enum names_rule {
	NAMES_ANY,
	NAMES_FRESH, /* anything, but what other managers have made is known here */
	NAMES_KNOWN, /* what there is or was; else the request is refused */
};

struct read_method {
	enum sql_id statement;
	struct rule rules[RULES_MAX];
	enum names_rule names;
	/* A further check of the request, or NULL. */
	bool (*check)(const ProtobufCMessage *request, struct reeve_error *error);
	/* What becomes of the response, or NULL: it is the answer. It ends with reading_end. */
	reading_done_fn *done;
};

/* Serves the method whose entry declares a struct read_method. */
rpc_method read_method;

#endif
