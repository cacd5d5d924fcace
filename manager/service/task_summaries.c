/* TaskService: what went wrong, and how attempts went, in groups. */
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/reading.h"
#include "manager/service/task_methods.h"

#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>

#define DAY_US (DAY_MS * 1000)

void task_errors(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ErrorsRequest *request = (const Reeve__V1__ErrorsRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (names_wait(s, call, message, task_errors, request->queue, request->type))
		return;
	if (!check_range("by", request->by, 0, REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE, &error) ||
	    !check_known_names(s, "", request->queue, request->type, &error) ||
	    !check_range("since_us", request->since_us, 0, INT64_C(253402300799000000), &error) || !check_page(request->page, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct reading *r = reading_of(s, call, SQL_ERRORS, message, reading_done);
	if (!request->since_us)
		((Reeve__V1__ErrorsRequest *)r->request)->since_us = core_clock_us(s->core) - DAY_US;
	reading_send(r);
}

void task_executions(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ExecutionsRequest *request = (const Reeve__V1__ExecutionsRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (names_wait(s, call, message, task_executions, request->queue, request->type))
		return;
	if (!check_range("by", request->by, 0, REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE, &error) ||
	    !check_known_names(s, "", request->queue, request->type, &error) ||
	    !check_range("since_us", request->since_us, 0, INT64_C(253402300799000000), &error) || !check_page(request->page, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct reading *r = reading_of(s, call, SQL_EXECUTIONS, message, reading_done);
	if (!request->since_us)
		((Reeve__V1__ExecutionsRequest *)r->request)->since_us = core_clock_us(s->core) - DAY_US;
	reading_send(r);
}
