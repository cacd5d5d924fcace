/* Adds the services to the server, and has functions that all methods use. */
#include "manager/service/services.h"

#include "common/clock.h"
#include "manager/core/submit.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/batch.pb-c.h>
#include <reeve/v1/metric.pb-c.h>
#include <reeve/v1/pipeline.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <reeve/v1/schedule.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/token.pb-c.h>
#include <reeve/v1/worker.pb-c.h>

enum { LONGEST_MS = 60000, MARGIN_MAX_MS = 500 };

void services_add(struct services *s)
{
	rpc_server_add(s->server, &reeve__v1__task_service__descriptor, task_methods, s);
	rpc_server_add(s->server, &reeve__v1__worker_service__descriptor, worker_methods, s);
	rpc_server_add(s->server, &reeve__v1__admin_service__descriptor, admin_methods, s);
	rpc_server_add(s->server, &reeve__v1__batch_service__descriptor, batch_methods, s);
	rpc_server_add(s->server, &reeve__v1__queue_service__descriptor, queue_methods, s);
	rpc_server_add(s->server, &reeve__v1__schedule_service__descriptor, schedule_methods, s);
	rpc_server_add(s->server, &reeve__v1__pipeline_service__descriptor, pipeline_methods, s);
	rpc_server_add(s->server, &reeve__v1__metric_service__descriptor, metric_methods, s);
	rpc_server_add(s->server, &reeve__v1__token_service__descriptor, token_methods, s);
}

bool service_has_request_id(const struct services *s, const struct rpc_call *call, struct reeve_error *error)
{
	const uint8_t *id = rpc_call_request_id(call);
	if (!id)
		return error_set(error, STATUS(INVALID_ARGUMENT), "request_id is missing: 16 bytes of a version 7 UUID");
	return request_id_timely(s->core->clock, id, error);
}

int64_t service_deadline(const struct services *s, const struct rpc_call *call)
{
	int64_t left = rpc_call_remaining_ms(call);
	int64_t margin = left / 10 < MARGIN_MAX_MS ? left / 10 : MARGIN_MAX_MS;
	left = left > LONGEST_MS ? LONGEST_MS : left - margin;
	return core_now(s->core) + left;
}

struct store_op service_op(const struct services *s, const struct rpc_call *call,
    void (*done)(struct store_op *op, const struct reeve_error *error))
{
	return (struct store_op){.done = done, .deadline_ms = service_deadline(s, call), .origin = rpc_call_origin(call)};
}

int64_t services_now_us(const struct services *s)
{
	int64_t now_us = core_clock_us(s->core);
	return now_us ? now_us : clock_wall_us();
}
