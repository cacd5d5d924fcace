/* libreeve against a fake manager, over real sockets. */
#include "common/clock.h"
#include "common/json_names.h"
#include "tests/unit/client/lib/fixture.h"
#include "tests/unit/compare.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TASK(status) REEVE__V1__TASK_STATUS__TASK_STATUS_##status

enum { COMPLETED = TASK(COMPLETED) };

/* Submits tasks with ids 1 to `count`, whose content does not matter. */
static void make_tasks(size_t count)
{
	Reeve__V1__TaskSpec *specs = calloc(count, sizeof *specs);
	Reeve__V1__SubmittedTask *submitted = calloc(count, sizeof *submitted);

	for (size_t i = 0; i < count; i++)
		specs[i].type = "t";
	for (size_t i = 0; i < count; i += REEVE_MAX_BATCH) {
		size_t n = count - i < REEVE_MAX_BATCH ? count - i : REEVE_MAX_BATCH;

		cr_assert(reeve_submit(client, specs + i, n, NULL, submitted, &failure), "%s", failure.message);
	}
	free(specs);
	free(submitted);
}

/* A spec that is valid except for these fields. */
#define POLICY(...)                                                                                                    \
	&(Reeve__V1__RetryPolicy)                                                                                          \
	{                                                                                                                  \
		__VA_ARGS__                                                                                                    \
	}
#define WITH(...) ((Reeve__V1__TaskSpec){.type = "t", __VA_ARGS__})

Test(client, refuses_bad_tasks_before_sending, .init = begin, .fini = finish)
{
	char long_name[300], long_details[FAKE_SERVER_MAX_DETAILS + 2];
	Reeve__V1__SubmittedTask submitted[2];
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];

	memset(long_name, 'n', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = '\0';
	memset(long_details, 'd', sizeof long_details - 1);
	long_details[sizeof long_details - 1] = '\0';
	struct {
		Reeve__V1__TaskSpec spec;
		const char *message;
	} cases[] = {
	    {{.type = NULL}, "type is empty"},
	    {{.type = ""}, "type is empty"},
	    {{.type = "a\nb"}, "type holds a control character"},
	    {{.type = long_name}, "type is longer than 255 bytes"},
	    {WITH(.queue = "q\x7f"), "queue holds a control character"},
	    {WITH(.key = "\xff"), "key is not UTF-8"},
	    {WITH(.source = "\xc2\x85"), "source holds a control character"},
	    {WITH(.traceparent = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
	        "traceparent has a trace id or parent id of zeros, which W3C declares invalid"},
	    {WITH(.details = "caf\xe9"), "details is not UTF-8"},
	    {WITH(.details = long_details), "details is longer than 2000 bytes, the manager's limit"},
	    {WITH(.priority = 1000001), "priority is 1000001; it must be from -1000000 to 1000000"},
	    {WITH(.delay_ms = -5000), "delay_ms is -5s; it must be from 0 to 36500 days"},
	    {WITH(.key = "k", .key_ttl_ms = -1), "key_ttl_ms is -1ms; it must be from 0 to 36500 days"},
	    {WITH(.key_ttl_ms = 1), "key_ttl_ms needs a key"},
	    {WITH(.timeout_ms = -1), "timeout_ms is -1ms; it must be from 0 to 30 days"},
	    {WITH(.timeout_ms = INT64_C(31) * 86400000), "timeout_ms is 31d; it must be from 0 to 30 days"},
	    {WITH(.retry = POLICY(.base_ms = -1)), "retry.base_ms is -1ms; it must be from 0 to 365 days"},
	    {WITH(.retry = POLICY(.max_ms = -1)), "retry.max_ms is -1ms; it must be from 0 to 365 days"},
	    {WITH(.retry = POLICY(.max_ms = INT64_C(366) * 86400000)),
	        "retry.max_ms is 366d; it must be from 0 to 365 days"},
	    {WITH(.retry = POLICY(.kind = 9)), "retry.kind is 9; it must be from 0 to 5"},
	    {WITH(.retry = POLICY(.jitter_percent = 101)), "retry.jitter_percent is 101; it must be from -1 to 100"},
	    {WITH(.retry = POLICY(.kind = REEVE__V1__RETRY_KIND__RETRY_KIND_POLYNOMIAL, .exponent = 11)),
	        "retry.exponent is 11; it must be above 0, at most 10"},
	    {WITH(.retry = POLICY(.kind = REEVE__V1__RETRY_KIND__RETRY_KIND_LIST, .n_delays_ms = 101)),
	        "retry.delays_ms has 101 elements; from 1 to 100 are allowed"},
	    {WITH(.retry = POLICY(.n_delays_ms = 1)), "retry.delays_ms is for kind list, not exponential"},
	    {WITH(.retry = POLICY(.kind = REEVE__V1__RETRY_KIND__RETRY_KIND_LIST)),
	        "retry.delays_ms has 0 elements; from 1 to 100 are allowed"},
	    {WITH(.retry = POLICY(.kind = REEVE__V1__RETRY_KIND__RETRY_KIND_LIST, .n_delays_ms = 2,
	              .delays_ms = (int64_t[]){0, -1})),
	        "retry.delays_ms[1] is -1ms; it must be from 0 to 365 days"},
	    {WITH(.retry = POLICY(.step_ms = -1)), "retry.step_ms is -1ms; it must be from 0 to 365 days"},
	    {WITH(.version = -1, .key = "k"), "version is -1; it must be from 0 to 9223372036854775807"},
	    {WITH(.version = 1), "version needs a key"},
	    {WITH(.max_attempts = 10001), "max_attempts is 10001; it must be from 0 to 10000"},
	    {WITH(.delay_ms = 1, .run_at_us = 1), "delay_ms and run_at_us cannot be combined"},
	    {WITH(.run_at_us = -1), "run_at_us is -1; it must be from 0 to 253402300799000000"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		Reeve__V1__TaskSpec both[] = {WITH(0), cases[i].spec};
		char expected[256];

		cr_assert(not(reeve_submit(client, &cases[i].spec, 1, NULL, submitted, &failure)), "%s", cases[i].message);
		cr_assert(eq(str, failure.message, (char *)cases[i].message));
		cr_assert(eq(int, failure.code, REEVE_INVALID_ARGUMENT));
		cr_assert(not(reeve_check(client, &cases[i].spec, &failure)));
		cr_assert(not(reeve_submit(client, both, 2, NULL, submitted, &failure)));
		snprintf(expected, sizeof expected, "tasks[1].%s", cases[i].message);
		cr_assert(eq(str, failure.message, expected));
	}
	cr_assert(not(reeve_submit(client, &cases[0].spec, 0, NULL, submitted, &failure)));
	cr_assert(eq(str, failure.message, "a submit takes 1 to 10000 tasks"));
	cr_assert(eq(sz, fake_server_submits(fake_server, submits), 0));
	long_details[FAKE_SERVER_MAX_DETAILS] = '\0';
	cr_assert(reeve_check(client, &WITH(.details = long_details), &failure), "%s", failure.message);
}

/* The names are a table, because they must stay valid. */
Test(client, names_each_status_as_the_contract_does)
{
	const ProtobufCEnumDescriptor *statuses = &reeve__v1__task_status__descriptor;
	char word[JSON_NAME_BYTES];

	for (unsigned i = 1; i < statuses->n_values; i++) {
		cr_assert(json_enum_word(statuses, statuses->values[i].value, word));
		cr_assert(eq(str, (char *)reeve_task_status_name((Reeve__V1__TaskStatus)statuses->values[i].value), word));
	}
	cr_assert(eq(str, (char *)reeve_task_status_name((Reeve__V1__TaskStatus)100), ""));
}

Test(client, finds_the_managers_by_the_environment)
{
	Reeve__V1__SubmittedTask submitted;

	fake_server = fake_server_start();
	setenv("REEVE_MANAGER", fake_server_url(fake_server), 1);
	client = reeve_client_create(&(struct reeve_client_options){0}, &failure);
	cr_assert(client != NULL, "%s", failure.message);
	cr_assert(reeve_submit(client, &WITH(0), 1, NULL, &submitted, &failure), "%s", failure.message);
	finish();
}

Test(client, says_that_no_manager_answers)
{
	struct reeve_client_options options = {.managers = "tcp://127.0.0.1:1", .connect_timeout_ms = 1000};
	Reeve__V1__SubmittedTask submitted;
	int64_t begun = clock_monotonic_ms();

	client = reeve_client_create(&options, &failure);
	cr_assert(client != NULL, "%s", failure.message);
	cr_assert(not(reeve_submit(client, &WITH(0), 1, NULL, &submitted, &failure)));
	cr_assert(eq(int, failure.code, REEVE_UNAVAILABLE));
	cr_assert(eq(str, failure.message,
	    "no manager reachable at tcp://127.0.0.1:1 (tried for 1s): connection refused: nothing listens there"));
	cr_assert(ge(i64, clock_monotonic_ms() - begun, 1000));
	reeve_client_destroy(client);

	options.managers = "nonsense";
	cr_assert(eq(ptr, reeve_client_create(&options, &failure), NULL));
	cr_assert(eq(int, failure.code, REEVE_INVALID_ARGUMENT));
	reeve_client_destroy(NULL);
}

/* Creates a socket that listens on this host, on *port. */
static int listener(int *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(eq(int, bind(fd, (struct sockaddr *)&address, sizeof address), 0));
	cr_assert(eq(int, listen(fd, 16), 0));
	cr_assert(eq(int, getsockname(fd, (struct sockaddr *)&address, &length), 0));
	*port = ntohs(address.sin_port);
	return fd;
}

/* Sends the greeting of another protocol to each connection. */
static void *greet_as_ssh(void *arg)
{
	int fd;

	while ((fd = accept(*(int *)arg, NULL, NULL)) >= 0) {
		if (write(fd, "SSH-2.0-other\r\n", 15) < 0)
			break;
		close(fd);
	}
	return NULL;
}

static void expect_absence(const char *managers, const char *why)
{
	struct reeve_client_options options = {.managers = managers, .connect_timeout_ms = 1000};

	client = reeve_client_create(&options, &failure);
	cr_assert(client != NULL, "%s", failure.message);
	cr_assert(not(reeve_client_ready(client, &failure)));
	cr_assert(strstr(failure.message, why) != NULL, "%s", failure.message);
	reeve_client_destroy(client);
}

Test(client, says_why_no_manager_answers)
{
	int silent_port, other_port, silent = listener(&silent_port), other = listener(&other_port);
	char silent_url[64], other_url[64], both[160], why[160];
	pthread_t thread;

	snprintf(silent_url, sizeof silent_url, "tcp://127.0.0.1:%d", silent_port);
	snprintf(other_url, sizeof other_url, "tcp://127.0.0.1:%d", other_port);
	cr_assert(eq(int, pthread_create(&thread, NULL, greet_as_ssh, &other), 0));
	expect_absence("tcp://127.0.0.1:1", "(tried for 1s): connection refused");
	expect_absence("tcp://no-such-host.invalid:7171", "(tried for 1s): unknown host");
	expect_absence(other_url, "(tried for 1s): something listens there that is not a Reeve manager");
	expect_absence(silent_url,
	    "(tried for 1s): something takes connections there, but sends no hello: another program, or a manager that is frozen");
	snprintf(both, sizeof both, "tcp://127.0.0.1:1,%s", other_url);
	snprintf(why, sizeof why, "tcp://127.0.0.1:1: connection refused: nothing listens there, %s: something listens",
	    other_url);
	expect_absence(both, why);
	shutdown(other, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(other);
	close(silent);
}

Test(client, a_full_manager_is_asked_again_with_the_same_id, .init = begin, .fini = finish)
{
	struct fake_server_submit submits[FAKE_SERVER_SUBMITS];
	Reeve__V1__SubmittedTask submitted;
	uint8_t id[REEVE_REQUEST_ID];

	fake_server_fail_submits(fake_server, 0, 3, STATUS(RESOURCE_EXHAUSTED));
	cr_assert(reeve_submit(client, &WITH(0), 1, NULL, &submitted, &failure), "%s", failure.message);
	cr_assert(eq(sz, fake_server_submits(fake_server, submits), 4));
	for (int i = 1; i < 4; i++)
		cr_assert(eq(int, memcmp(submits[0].request_id, submits[i].request_id, REEVE_REQUEST_ID), 0));
	cr_assert(gt(i64, uuid7_time_ms(submits[0].request_id), 0));

	cr_assert(reeve_request_id(client, id, &failure));
	cr_assert(reeve_submit(client, &WITH(0), 1, id, &submitted, &failure));
	fake_server_submits(fake_server, submits);
	cr_assert(eq(int, memcmp(submits[4].request_id, id, REEVE_REQUEST_ID), 0));

	fake_server_fail_submits(fake_server, 0, 1, STATUS(PERMISSION_DENIED));
	cr_assert(not(reeve_submit(client, &WITH(0), 1, NULL, &submitted, &failure)));
	cr_assert(eq(int, failure.code, REEVE_PERMISSION_DENIED));
	cr_assert(eq(str, failure.message, "as the test wants it"));
}

/* A call that is refused until its time is over fails with the refusal; only a try without an answer leaves open what
 * became of it, and then the error has both. */
Test(client, a_call_that_runs_out_of_time_names_the_refusal, .init = begin, .fini = finish)
{
	const struct reeve_client_options options = {.managers = fake_server_url(fake_server), .call_timeout_ms = 1000};
	struct reeve_client *brief = reeve_client_create(&options, &failure);
	Reeve__V1__SubmittedTask submitted;

	cr_assert(ne(ptr, brief, NULL), "%s", failure.message);
	fake_server_fail_submits(fake_server, 0, 1000, STATUS(RESOURCE_EXHAUSTED));
	cr_assert(not(reeve_submit(brief, &WITH(0), 1, NULL, &submitted, &failure)));
	cr_assert(eq(int, failure.code, REEVE_RESOURCE_EXHAUSTED));
	cr_assert(eq(str, failure.message, "as the test wants it"));
	fake_server_fail_submits(fake_server, 0, 2, STATUS(RESOURCE_EXHAUSTED));
	fake_server_hold_submits(fake_server, 2);
	cr_assert(not(reeve_submit(brief, &WITH(0), 1, NULL, &submitted, &failure)));
	cr_assert(eq(int, failure.code, REEVE_DEADLINE_EXCEEDED));
	cr_assert(strstr(failure.message, " in time; before that it was refused: as the test wants it") != NULL, "%s",
	    failure.message);
	fake_server_hold_submits(fake_server, 0);
	reeve_client_destroy(brief);
}

static void *submit_many(void *arg)
{
	atomic_int *n_failed = arg;
	Reeve__V1__SubmittedTask submitted;

	for (int i = 0; i < 100; i++)
		*n_failed += !reeve_submit(client, &WITH(0), 1, NULL, &submitted, NULL);
	return NULL;
}

Test(client, serves_many_threads, .init = begin, .fini = finish)
{
	pthread_t threads[8];
	atomic_int n_failed = 0;

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, submit_many, &n_failed);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	cr_assert(eq(int, n_failed, 0));
	cr_assert(eq(sz, fake_server_tasks(fake_server), 800));
}

/* The position is in the answer, or in its last item. */
Test(client, finds_the_next_page)
{
	Reeve__V1__ListRequest list = REEVE__V1__LIST_REQUEST__INIT;
	Reeve__V1__ListResponse tasks = REEVE__V1__LIST_RESPONSE__INIT;
	Reeve__V1__ListMetricsRequest by_name = REEVE__V1__LIST_METRICS_REQUEST__INIT;
	Reeve__V1__ListMetricsResponse metrics = REEVE__V1__LIST_METRICS_RESPONSE__INIT;
	Reeve__V1__Metric metric = REEVE__V1__METRIC__INIT, *items[] = {&metric};

	tasks.next_before_id = 17;
	cr_assert(reeve_next_page(&list, &tasks));
	cr_assert(eq(i64, list.before_id, 17));
	tasks.next_before_id = 0;
	cr_assert(not(reeve_next_page(&list, &tasks)));
	metric.category = "shop";
	metric.name = "orders";
	metrics.n_metrics = 1;
	metrics.metrics = items;
	cr_assert(not(reeve_next_page(&by_name, &metrics)));
	metrics.more = true;
	cr_assert(reeve_next_page(&by_name, &metrics));
	cr_assert(eq(str, (char *)by_name.after_category, "shop"));
	cr_assert(eq(str, (char *)by_name.after_name, "orders"));
	metrics.n_metrics = 0;
	cr_assert(not(reeve_next_page(&by_name, &metrics)));
}

Test(client, changes_tasks, .init = begin, .fini = finish)
{
	int64_t ids[] = {2, 77, 1};
	Reeve__V1__NewPriority priority = {.value = 0};
	Reeve__V1__UpdateRequest request = {.n_ids = 3, .ids = ids, .priority = &priority, .max_attempts = 3};
	Reeve__V1__CancelResponse *cancelled;

	make_tasks(2);
	fake_server_end(fake_server, 1, COMPLETED, "r");
	Reeve__V1__UpdateResponse *updated = reeve_task_update(client, &request, NULL, &failure);
	cr_assert(updated != NULL, "%s", failure.message);
	cr_assert(eq(sz, updated->n_tasks, 2));
	cr_assert(eq(i64, updated->tasks[0]->id, 2));
	cr_assert(updated->tasks[0]->changed && !*updated->tasks[0]->note);
	cr_assert(not(updated->tasks[1]->changed));
	cr_assert(eq(str, (char *)updated->tasks[1]->note, "it has ended"));
	cr_assert(eq(sz, updated->n_not_found, 1));
	cr_assert(eq(i64, updated->not_found[0], 77));
	reeve_free(updated);

	cancelled = reeve_cancel(client, ids, 1, "no more", &failure);
	cr_assert(cancelled && cancelled->tasks[0]->status == TASK(CANCELLED));
	cr_assert(eq(str, (char *)fake_server_reason(fake_server), "no more"));
	reeve_free(cancelled);
	cr_assert(eq(ptr, reeve_cancel(client, &ids[1], 1, NULL, &failure), NULL));
	cr_assert(eq(int, failure.code, REEVE_NOT_FOUND));
	cr_assert(eq(ptr, reeve_cancel(client, ids, 0, NULL, &failure), NULL));
	cr_assert(eq(int, failure.code, REEVE_INVALID_ARGUMENT));
}

Test(client, shows_events_and_states, .init = begin, .fini = finish)
{
	Reeve__V1__ListQueuesRequest night = {.queue = "night"};

	make_tasks(3);
	Reeve__V1__AuditResponse *audit = reeve_audit(client, &(Reeve__V1__AuditRequest){.limit = 2}, &failure);
	cr_assert(audit && audit->n_events == 2 && audit->more);
	cr_assert(eq(int, audit->events[1]->event, REEVE__V1__AUDIT_EVENT_KIND__AUDIT_EVENT_KIND_SUBMITTED));
	cr_assert(eq(i64, audit->events[1]->task_id, 3));
	reeve_free(audit);
	audit = reeve_audit(client, &(Reeve__V1__AuditRequest){.task_id = 3}, &failure);
	cr_assert(audit && audit->n_events == 1 && !audit->more);
	reeve_free(audit);

	Reeve__V1__ListQueuesResponse *queues = reeve_queues(client, &night, &failure);
	cr_assert(queues && queues->n_queues == 1);
	cr_assert(eq(str, (char *)queues->queues[0]->queue, "night"));
	cr_assert(eq(i64, queues->queues[0]->delayed, 2));
	cr_assert(eq(str, (char *)night.queue, "night"));
	reeve_free(queues);

	Reeve__V1__StatsResponse *stats = reeve_admin_stats(client, &(Reeve__V1__StatsRequest){0}, NULL, &failure);
	cr_assert(stats && stats->queued == 3 && stats->n_counters == 1);
	cr_assert(eq(str, (char *)stats->counters[0]->name, "claims_won"));
	cr_assert(eq(i64, stats->counters[0]->value, 42));
	reeve_free(stats);
	cr_assert(lt(i64, llabs(reeve_client_now_us(client) - clock_wall_us()), 1000000));
}

Test(client, names_codes_and_statuses)
{
	cr_assert(eq(str, (char *)reeve_code_name(REEVE_NOT_FOUND), "NOT_FOUND"));
	cr_assert(eq(str, (char *)reeve_code_name((enum reeve_code)99), "UNKNOWN"));
	cr_assert(eq(str, (char *)reeve_task_status_name(TASK(EXECUTING)), "executing"));
	cr_assert(eq(str, (char *)reeve_task_status_name((Reeve__V1__TaskStatus)-1), ""));
	for (int i = TASK(QUEUED); i <= TASK(CANCELLED); i++)
		cr_assert(eq(int, reeve_task_status_ended((Reeve__V1__TaskStatus)i), i >= TASK(COMPLETED)));
}
