/* PipelineService: defines and shows pipelines. */
#include "common/limits.h"
#include "manager/service/method.h"
#include "manager/service/pipeline.h"

static char *define_change(const struct services *services, const struct rpc_call *call,
    const ProtobufCMessage *request, struct reeve_error *error)
{
	static const Reeve__V1__Pipeline nothing = REEVE__V1__PIPELINE__INIT;
	const Reeve__V1__Pipeline *pipeline = ((const Reeve__V1__DefinePipelineRequest *)request)->pipeline;
	(void)services;
	(void)call;
	return pipeline_check(pipeline ? pipeline : &nothing, error) ? pipeline_stages_json(pipeline) : NULL;
}

const struct rpc_entry pipeline_methods[] = {
    {"Define", write_method, RPC_ORDINARY, MAY_OPERATE, METHOD(SQL_PIPELINE_DEFINE, .change = define_change)},
    {"List", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_PIPELINE_LIST,
            .rules = {{"after_name", RULE_NAME_OR_NONE},
                {"limit", RULE_NUMBER, .max = LIMIT_LIST, .otherwise = DEFAULT_LIST}})},
    {"Show", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_PIPELINE_GET, .rules = {{"name", RULE_NAME}}, .found = "pipeline",
            .missing = "there is no pipeline \"{name}\"")},
    {"Status", read_method, RPC_OPERATOR, MAY_READ,
        METHOD(SQL_PIPELINE_STATUS, .rules = {{"name", RULE_NAME}}, .found = "name",
            .missing = "there is no pipeline \"{name}\"")},
    {0},
};
