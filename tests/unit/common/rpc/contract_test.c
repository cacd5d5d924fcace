/* Programs and managers with different versions of the contract. */
#include "fake_manager.h"

#include "common/rpc/envelope.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

enum { CURRENT = REEVE__V1__CONTRACT__CONTRACT_CURRENT };

/* Calls Ping with a version of the contract. Returns the status, and the error's message. */
static reeve_status ping_as(nng_socket socket, uint32_t contract, char message[512])
{
	Reeve__V1__Request request = REEVE__V1__REQUEST__INIT;
	Reeve__V1__Reply *reply;
	uint8_t bytes[512], *answer;
	size_t length;
	reeve_status code;

	request.method = "/reeve.v1.AdminService/Ping";
	request.contract = contract;
	length = reeve__v1__request__pack(&request, bytes);
	cr_assert_eq(nng_send(socket, bytes, length, 0), 0);
	cr_assert_eq(nng_recv(socket, &answer, &length, NNG_FLAG_ALLOC), 0);
	reply = reeve__v1__reply__unpack(NULL, length, answer);
	cr_assert(reply);
	code = reply->code;
	snprintf(message, 512, "%s", reply->message);
	reeve__v1__reply__free_unpacked(reply, NULL);
	nng_free(answer, length);
	return code;
}

Test(rpc_contract, a_manager_refuses_calls_of_another_version_and_serves_the_next)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket;
	char message[512], expected[512];
	uint32_t others[] = {0, CURRENT + 1, UINT32_MAX};

	cr_assert_eq(nng_req0_open(&socket), 0);
	cr_assert_eq(nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, 5000), 0);
	cr_assert_eq(nng_dial(socket, manager->host.url, NULL, 0), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(ping_as(socket, others[i], message), STATUS(UNIMPLEMENTED));
		envelope_contract_problem(others[i], CURRENT, expected, sizeof expected);
		cr_assert_str_eq(message, expected);
	}
	cr_assert_eq(manager->pings, 0);
	cr_assert_eq(ping_as(socket, CURRENT, message), STATUS(OK));
	cr_assert_eq(manager->pings, 1);
	nng_close(socket);
	fake_manager_free(manager);
}

Test(rpc_contract, the_message_names_both_versions_and_what_to_upgrade)
{
	char message[512];

	envelope_contract_problem(2, 7, message, sizeof message);
	cr_assert_str_eq(
	    message, "this program has version 2 of Reeve's contract, the manager has version 7: upgrade this program");
	envelope_contract_problem(7, 2, message, sizeof message);
	cr_assert_str_eq(
	    message, "this program has version 7 of Reeve's contract, the manager has version 2: upgrade the manager");
	envelope_contract_problem(0, 1, message, sizeof message);
	cr_assert_str_eq(
	    message, "this program has no version of Reeve's contract, the manager has version 1: upgrade this program");
	envelope_contract_problem(1, 0, message, sizeof message);
	cr_assert_str_eq(
	    message, "this program has version 1 of Reeve's contract, the manager has no version: upgrade the manager");
}

/* A manager from before versions serves every call and reports no version; a later one could serve other versions. */
static void calls_end_at_once(uint32_t contract)
{
	struct fake_manager *manager = fake_manager_make(LOOPBACK, NULL);
	struct rpc_client *client;
	struct reeve_error error;
	char expected[512];
	int64_t begun_ms = clock_monotonic_ms();

	manager->contract = contract;
	fake_manager_run(manager);
	client = fake_client(manager->host.url);
	envelope_contract_problem(CURRENT, contract, expected, sizeof expected);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(fake_call_get(client, 1, &error), STATUS(UNIMPLEMENTED));
		cr_assert_str_eq(error.message, expected);
	}
	cr_assert(rpc_client_alive(client, 5000), "calls are answered");
	cr_assert_lt(clock_monotonic_ms() - begun_ms, 2000);
	cr_assert_eq(manager->gets, 0, "no call was sent");
	rpc_client_absence(client, error.message, sizeof error.message);
	cr_assert_str_eq(error.message, expected);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_contract, a_client_sends_no_call_to_a_manager_from_before_versions)
{
	calls_end_at_once(REEVE__V1__CONTRACT__CONTRACT_NONE);
}

Test(rpc_contract, a_client_sends_no_call_to_a_manager_of_another_version)
{
	calls_end_at_once(CURRENT + 1);
}

Test(rpc_contract, a_client_passes_a_managers_refusal_on)
{
	struct fake_manager *manager = fake_manager_make(LOOPBACK, NULL);
	struct rpc_client *client;
	struct reeve_error error;

	manager->ping_answers = STATUS(UNIMPLEMENTED);
	fake_manager_run(manager);
	client = fake_client(manager->host.url);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(UNIMPLEMENTED));
	cr_assert_str_eq(error.message, "as the test wants it");
	cr_assert_eq(manager->gets, 0);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_contract, calls_go_to_the_managers_of_the_same_version)
{
	struct fake_manager *other = fake_manager_make(LOOPBACK, NULL), *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client;
	struct reeve_error error;
	char urls[300];

	other->contract = CURRENT + 1;
	fake_manager_run(other);
	snprintf(urls, sizeof urls, "%s,%s", other->host.url, manager->host.url);
	for (int i = 0; i < 8; i++) { /* whichever is preferred at random */
		client = fake_client(urls);
		cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "%s", error.message);
		rpc_client_destroy(client);
	}
	cr_assert_eq(manager->gets, 8);
	cr_assert_eq(other->gets, 0);
	fake_manager_free(manager);
	fake_manager_free(other);
}

Test(rpc_contract, calls_wait_for_a_manager_that_is_absent_while_another_refuses_them)
{
	struct fake_manager *other = fake_manager_make(LOOPBACK, NULL), *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_call_options options = {.timeout_ms = 700};
	struct fake_result result;
	struct rpc_client *client;
	char urls[300];

	other->contract = CURRENT + 1;
	fake_manager_run(other);
	snprintf(urls, sizeof urls, "%s,%s", other->host.url, manager->host.url);
	fake_manager_free(manager);
	client = fake_client(urls);
	fake_start_wait(client, 1, &options, &result);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(UNAVAILABLE));
	cr_assert_eq(result.sends, 0);
	cr_assert_not(rpc_client_alive(client, 0));
	rpc_client_destroy(client);
	fake_manager_free(other);
}

Test(rpc_contract, a_client_goes_on_when_the_manager_was_upgraded)
{
	struct fake_manager *manager = fake_manager_make(LOOPBACK, NULL);
	struct rpc_client *client;
	struct reeve_error error;

	manager->contract = REEVE__V1__CONTRACT__CONTRACT_NONE;
	fake_manager_run(manager);
	client = fake_client(manager->host.url);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(UNIMPLEMENTED));
	pthread_mutex_lock(&manager->host.lock);
	manager->contract = CURRENT;
	pthread_mutex_unlock(&manager->host.lock);
	for (int64_t end_ms = clock_monotonic_ms() + 5000; clock_monotonic_ms() < end_ms;)
		if (fake_call_get(client, 1, &error) == STATUS(OK))
			break;
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "%s", error.message);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}
