/* Control of workers. */
#include "client/lib/internal.h"

#include <stdlib.h>

struct names_result {
	struct reeve_names names;
	Reeve__V1__ControlWorkersResponse *response;
};

struct reeve_names *reeve_control_workers(struct reeve_client *client, const char *name,
    enum reeve_worker_action action, uint32_t concurrency, struct reeve_failure *failure)
{
	Reeve__V1__ControlWorkersRequest request = REEVE__V1__CONTROL_WORKERS_REQUEST__INIT;
	Reeve__V1__ControlWorkersResponse *response;
	struct names_result *result;

	request.all = name == NULL;
	if (name)
		request.name = name;
	request.action = (Reeve__V1__WorkerAction)action;
	request.concurrency = concurrency;
	response = (Reeve__V1__ControlWorkersResponse *)client_call(
	    client, &reeve__v1__admin_service__descriptor, "ControlWorkers", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->names = (struct reeve_names){
	    .count = response->n_names,
	    .names = (const char *const *)response->names,
	    .notified = response->notified,
	    .wire = response,
	};
	return &result->names;
}

void reeve_names_free(struct reeve_names *names)
{
	struct names_result *result = (struct names_result *)names;

	if (!names)
		return;
	reeve__v1__control_workers_response__free_unpacked(result->response, NULL);
	free(result);
}
