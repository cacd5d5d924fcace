/* TaskService: summaries of errors and executions, and log lines. */
#include "common/limits.h"
#include "manager/service/check.h"
#include "manager/service/task_methods.h"

#include <reeve/v1/task.pb-c.h>

#define DAY_US (DAY_MS * 1000)

const struct method task_errors = {
    SQL_ERRORS,
    .rules = {{"by", RULE_NUMBER, .max = REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE},
        {"since_us", RULE_SINCE, .otherwise = DAY_US}, {"page", RULE_PAGE}},
    .names = true,
};

static bool check_executions(const ProtobufCMessage *request, struct reeve_error *error)
{
	const Reeve__V1__ExecutionsRequest *r = (const Reeve__V1__ExecutionsRequest *)request;
	return !r->all_queues || r->by == REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "all_queues is for counts by type");
}

const struct method task_executions = {
    SQL_EXECUTIONS,
    .rules = {{"by", RULE_NUMBER, .max = REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE},
        {"status", RULE_NUMBER, .max = REEVE__V1__EXECUTION_STATUS__EXECUTION_STATUS_ALL},
        {"since_us", RULE_SINCE, .otherwise = DAY_US}, {"page", RULE_PAGE}},
    .names = true,
    .check = check_executions,
};

const struct method task_logs = {
    SQL_LOGS,
    .rules = {{"task_id", RULE_NUMBER, .min = 1, .max = INT64_MAX}, {"after_number", RULE_NUMBER, .max = INT64_MAX},
        {"limit", RULE_NUMBER, .max = LIMIT_LOG_LINES, .otherwise = LIMIT_LOG_LINES}},
    .quick = true,
    .found = "status",
    .missing = "there is no task {task_id}",
};
