/*
 * Methods that only read, as declarations: the statement, whose head names the fields of the request and of the
 * response (sql/heads.awk), and the rules for the request's fields.
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
	RULE_NAME,         /* 1 to 255 bytes without control characters */
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

/* Rules for the fields `queue` and `type`, if the request has them. */
enum names_rule {
	NAMES_ANY,
	NAMES_FRESH, /* anything, but names that other managers have created are known here */
	NAMES_KNOWN, /* an existing or former name; else the request is refused */
};

struct read_method {
	enum sql_id statement;
	struct rule rules[RULES_MAX];
	enum names_rule names;
	/* A further check of the request, or NULL. */
	bool (*check)(const ProtobufCMessage *request, struct reeve_error *error);
	/* Handles the response, and ends with reading_end; or NULL: the response is the answer. */
	reading_done_fn *done;
};

/* Serves a method whose entry has a struct read_method. */
rpc_method read_method;

#endif
