/* The ends of a server and of connections, with open calls. */
#include "server_support.h"
#include "tests/unit/own_time.h"

#include "common/rpc/frame.h"

#include <poll.h>
#include <sys/socket.h>

Test(rpc_server, notifies_open_calls_of_the_end)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result results[50];

	for (int i = 0; i < 50; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 50);
	fake_manager_do(manager, fake_answer, &manager->parked[7]);
	fake_manager_stop(manager);
	cr_assert_eq(manager->n_closed, 49);
	cr_assert_not(manager->parked[7].closed);
	/* The answer has been sent, but when the client reads it depends on the client's threads. */
	fake_result_await(&results[manager->parked[7].id]);
	rpc_client_destroy(client);
	for (int i = 0; i < 50; i++)
		cr_assert_eq(results[i].code, i == manager->parked[7].id ? STATUS(OK) : STATUS(CANCELLED));
	fake_manager_free(manager);
}

/* A connection that is read only some time after its other end has closed, and what the read returns. */
struct late_reader {
	int fd;
	short events; /* from poll() before the read */
	ssize_t got;  /* number of bytes in `bytes` */
	uint8_t bytes[1000];
};

static void *read_late(void *arg)
{
	struct late_reader *late = arg;
	struct pollfd readable = {.fd = late->fd, .events = POLLIN};

	pause_ms(300);
	poll(&readable, 1, 0);
	late->events = readable.revents;
	late->got = recv(late->fd, late->bytes, sizeof late->bytes, 0);
	close(late->fd);
	return NULL;
}

/* A server that stops does not reset connections on which clients have sent more or still send. A reset would lose
 * answers that they have not read yet, since most clients that use poll() (nng, for example) check POLLHUP before they
 * read. */
Test(rpc_server, answers_given_before_the_end_reach_callers_that_go_on_sending)
{
	/* Not a valid envelope, so it is answered at once. Sent with the string's final 0. */
	static const char call[] = "\0\0\0\0\0\0\0\x07\x80\0\0\x01\xff\xff";
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct late_reader late = {.fd = dial_bare(port_of(manager->host.url))};
	struct pollfd readable = {.fd = late.fd, .events = POLLIN};
	uint8_t greeting[8];
	pthread_t reader;
	int64_t begun_ms;

	cr_assert_eq(send(late.fd, handshake, 8, 0), 8);
	cr_assert_eq(recv(late.fd, greeting, 8, MSG_WAITALL), 8);
	cr_assert_eq(send(late.fd, call, sizeof call, 0), sizeof call);
	cr_assert_eq(poll(&readable, 1, 10000), 1);
	fake_manager_halt(manager);
	cr_assert_eq(send(late.fd, call, sizeof call, 0), sizeof call);
	begun_ms = own_ms();
	cr_assert_eq(pthread_create(&reader, NULL, read_late, &late), 0);
	fake_manager_stop(manager);
	cr_assert_lt(own_ms() - begun_ms, 900, "it waits no longer than its callers need");
	pthread_join(reader, NULL);
	cr_assert_eq(late.events, POLLIN, "%#x", (unsigned)late.events);
	cr_assert_gt(late.got, 0);
	fake_manager_free(manager);
}

/* Nine calls parked by one client. The callback of a call whose connection has closed answers its own call and the
 * calls next to it. */
static struct fake_manager *park_nine(struct rpc_client **client, struct fake_result results[9])
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);

	manager->answer_closed = true;
	*client = fake_client(manager->host.url);
	for (int i = 0; i < 9; i++)
		fake_start_wait(*client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 9);
	return manager;
}

Test(rpc_server, calls_may_be_answered_while_their_owners_learn_that_the_caller_has_gone)
{
	struct fake_result results[9];
	struct rpc_client *client;
	struct fake_manager *manager = park_nine(&client, results);
	int open;

	rpc_client_destroy(client);
	/* The first callback answers its own call and the second, the third its own and the fourth, and so on; no callback
	 * runs for a call that has been answered. */
	fake_manager_await(manager, &manager->n_closed, 5);
	fake_manager_do(manager, count_open, &open);
	cr_assert_eq(open, 0);
	fake_manager_stop(manager);
	cr_assert_eq(manager->n_closed, 5);
	fake_manager_free(manager);
}

Test(rpc_server, calls_may_be_answered_while_their_owners_learn_that_the_server_ends)
{
	struct fake_result results[9];
	struct rpc_client *client;
	struct fake_manager *manager = park_nine(&client, results);

	fake_manager_stop(manager);
	cr_assert_eq(manager->n_closed, 5);
	for (int i = 0; i < 9; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(ABORTED));
	}
	rpc_client_destroy(client);
	fake_manager_free(manager);
}
