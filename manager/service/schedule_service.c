/* ScheduleService: definitions of schedules, and their runs. */
#include "common/limits.h"
#include "manager/service/method.h"
#include "manager/service/schedule_change.h"

/* An answer has no more runs than RUNS_PAGE, because each run's task is searched in every partition of the history. */
enum { RUNS_PAGE = 200 };

const struct rpc_entry schedule_methods[] = {
    {"Add", write_method, RPC_ORDINARY, MAY_OPERATE, METHOD(SQL_SCHEDULE_ADD, .change = schedule_addition)},
    {"Edit", write_method, RPC_OPERATOR, MAY_OPERATE, METHOD(SQL_SCHEDULE_EDIT, .change = schedule_change)},
    {"List", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_SCHEDULE_LIST,
            .rules = {{"after_name", RULE_NAME_OR_NONE},
                {"limit", RULE_NUMBER, .max = LIMIT_LIST, .otherwise = DEFAULT_LIST}})},
    {"Show", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_SCHEDULE_GET, .rules = {{"name", RULE_NAME}, {"preview", RULE_NUMBER, .max = LIMIT_PREVIEW}},
            .found = "schedule", .missing = "there is no schedule \"{name}\"")},
    {"Control", write_method, RPC_OPERATOR, MAY_OPERATE,
        METHOD(SQL_SCHEDULE_CONTROL,
            .rules = {{"name", RULE_NAME},
                {"action", RULE_NUMBER, .min = 1, .max = REEVE__V1__SCHEDULE_ACTION__SCHEDULE_ACTION_REMOVE}})},
    {"Run", write_method, RPC_ORDINARY, MAY_OPERATE,
        METHOD(SQL_SCHEDULE_RUN, .rules = {{"name", RULE_NAME}}, .found = "run",
            .missing = "the run is not kept any more")},
    {"Runs", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_SCHEDULE_RUNS,
            .rules = {{"name", RULE_NAME},
                {"limit", RULE_NUMBER, .max = LIMIT_LIST, .otherwise = DEFAULT_LIST, .cap = RUNS_PAGE},
                {"before_id", RULE_NUMBER, .max = INT64_MAX, .otherwise = INT64_MAX}})},
    {0},
};
