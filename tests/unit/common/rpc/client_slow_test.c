/* Calls on a slow line: it forwards to a manager what clients send, at a limited rate, and returns answers at once. */
#include "client_support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { BYTES_PER_MS = 200, LINE_BUFFER = 16384, LINE_SEGMENT = 1400, LINE_TICK_MS = 20 };

struct line {
	int listener, to; /* to: the manager's port */
	char url[64];
	pthread_t thread;
	atomic_bool stop;
	atomic_int connections;
};

static int open_socket(int port, struct sockaddr_in *address)
{
	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* Passes bytes on. Returns false if the connection has ended. */
static bool forward(int from, int to, size_t most)
{
	char bytes[65536];
	ssize_t count = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, MSG_DONTWAIT);

	if (count > 0)
		return send(to, bytes, (size_t)count, MSG_NOSIGNAL) == count;
	return count < 0 && (errno == EAGAIN || errno == EINTR);
}

static void serve(struct line *line, int client)
{
	struct sockaddr_in address;
	int manager = open_socket(line->to, &address);
	bool open = connect(manager, (struct sockaddr *)&address, sizeof address) == 0;
	int64_t sent_ms = clock_monotonic_ms();

	while (open && !atomic_load(&line->stop)) {
		struct pollfd answer = {.fd = manager, .events = POLLIN};
		int64_t due_ms;

		if (poll(&answer, 1, 1) > 0)
			open = forward(manager, client, SIZE_MAX);
		due_ms = clock_monotonic_ms() - sent_ms;
		if (due_ms >= LINE_TICK_MS) {
			sent_ms += due_ms;
			open = open && forward(client, manager, (size_t)due_ms * BYTES_PER_MS);
		}
	}
	close(manager);
	close(client);
}

static void *line_run(void *arg)
{
	struct line *line = arg;

	while (!atomic_load(&line->stop)) {
		struct pollfd incoming = {.fd = line->listener, .events = POLLIN};

		if (poll(&incoming, 1, LINE_TICK_MS) <= 0)
			continue;
		atomic_fetch_add(&line->connections, 1);
		serve(line, accept4(line->listener, NULL, NULL, SOCK_CLOEXEC));
	}
	return NULL;
}

/* The segments are small, as on a network: otherwise the sender's kernel takes all at once. */
static void line_start(struct line *line, const char *manager_url)
{
	struct sockaddr_in address;
	socklen_t length = sizeof address;

	*line = (struct line){.listener = open_socket(0, &address), .to = atoi(strrchr(manager_url, ':') + 1)};
	setsockopt(line->listener, SOL_SOCKET, SO_RCVBUF, &(int){LINE_BUFFER}, sizeof(int));
	setsockopt(line->listener, IPPROTO_TCP, TCP_MAXSEG, &(int){LINE_SEGMENT}, sizeof(int));
	cr_assert_eq(bind(line->listener, (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_eq(listen(line->listener, 5), 0);
	cr_assert_eq(getsockname(line->listener, (struct sockaddr *)&address, &length), 0);
	snprintf(line->url, sizeof line->url, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
	cr_assert_eq(pthread_create(&line->thread, NULL, line_run, line), 0);
}

static void line_end(struct line *line)
{
	atomic_store(&line->stop, true);
	pthread_join(line->thread, NULL);
	close(line->listener);
}

/* The ping, and its answer, come after the message, which takes several times as long as a manager may be silent. */
Test(rpc_client, a_long_call_on_a_slow_line_is_sent_once)
{
	enum { LENGTH = 1 << 20 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct line line;
	struct rpc_client *client;
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT, *tasks[] = {&spec};
	struct rpc_call_options options = {.timeout_ms = 60000};
	struct fake_result result;
	char *details = malloc(LENGTH + 1);

	line_start(&line, manager->host.url);
	client = fake_client(line.url);
	cr_assert(rpc_client_alive(client, 10000));
	memset(details, 'd', LENGTH);
	details[LENGTH] = 0;
	spec.details = details;
	request.n_tasks = 1;
	request.tasks = tasks;
	fake_result_init(&result);
	rpc_client_start(client, TASKS, "Submit", &request.base, &options, fake_done, &result);
	for (int i = 0; i < 6 && !fake_result_done(&result); i++)
		pause_ms(1000);
	fake_result_await(&result);
	cr_expect_eq(result.code, STATUS(OK), "%s", result.message);
	cr_expect_eq(result.sends, 1);
	cr_expect_eq(atomic_load(&line.connections), 1);
	rpc_client_destroy(client);
	line_end(&line);
	fake_manager_free(manager);
	free(details);
}
