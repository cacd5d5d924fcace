/* Listening: ports, the files of sockets, and a lack of descriptors. */
#include "server_support.h"

#include "common/rpc/listening.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

Test(rpc_server, a_second_listener_on_the_port_gets_the_reason)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct event_base *base = event_base_new();
	struct rpc_server_options options = {0};
	struct reeve_error error = {0};
	struct rpc_server *second = rpc_server_create(base, &options);
	char expected[256];

	cr_assert_not(rpc_server_listen(second, manager->host.url, &error));
	cr_assert_eq(error.code, STATUS(UNAVAILABLE));
	snprintf(expected, sizeof expected, "%s: address in use", manager->host.url);
	cr_assert_str_eq(error.message, expected);
	cr_assert_not(rpc_server_listen(second, "carrier-pigeon://loft", &error));
	cr_assert_eq(error.code, STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(error.message, "\"carrier-pigeon://loft\""), "%s", error.message);
	cr_assert(strstr(error.message, "tcp://HOST:PORT"), "%s", error.message);
	rpc_server_destroy(second);
	event_base_free(base);
	fake_manager_free(manager);
}

Test(rpc_server, listens_on_a_path_too)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", url[64];
	struct fake_manager *manager;
	struct rpc_client *client;
	struct reeve_error error;

	cr_assert(mkdtemp(directory));
	snprintf(url, sizeof url, "ipc://%s/socket", directory);
	manager = fake_manager_start(url, NULL);
	cr_assert_str_eq(manager->host.url, url);
	client = fake_client(url);
	cr_assert_eq(fake_call_get(client, 3, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	cr_assert_eq(rmdir(directory), 0, "the socket's file is left over");
}

/* Returns true if a server can listen on the URL; otherwise *error is set. */
static bool listens(const char *url, struct reeve_error *error)
{
	struct event_base *base = event_base_new();
	struct rpc_server_options options = {0};
	struct rpc_server *server = rpc_server_create(base, &options);
	bool good = rpc_server_listen(server, url, error);

	rpc_server_destroy(server);
	event_base_free(base);
	return good;
}

static struct sockaddr_un unix_address(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	return address;
}

/* Creates a socket file. Its socket listens if `backlog` is not negative. */
static int socket_at(const char *path, int backlog)
{
	struct sockaddr_un address = unix_address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	if (backlog >= 0)
		cr_assert_eq(listen(fd, backlog), 0);
	return fd;
}

Test(rpc_server, takes_over_a_dead_socket_and_no_other_file)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80], bytes[8];
	struct reeve_error error;
	int fd;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	close(socket_at(path, 0));
	cr_assert(listens(url, &error), "%s", error.message);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(write(fd, "precious", 8), 8);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "not a socket"), "%s", error.message);
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(read(fd, bytes, 8), 8, "the file is gone");
	close(fd);
	unlink(path);
	rmdir(directory);
}

/* The frozen manager's backlog is full, and it accepts no connection. */
Test(rpc_server, a_frozen_manager_keeps_its_path, .timeout = 10)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80];
	struct sockaddr_un address;
	struct reeve_error error;
	int frozen, waiting;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	frozen = socket_at(path, 0);
	address = unix_address(path);
	waiting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(waiting, (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "address in use"), "%s", error.message);
	close(frozen);
	close(waiting);
	unlink(path);
	rmdir(directory);
}

Test(rpc_server, leaves_its_successors_socket_alone)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80];
	struct fake_manager *manager, *successor;
	struct rpc_client *client;
	struct reeve_error error;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	manager = fake_manager_start(url, NULL);
	unlink(path);
	successor = fake_manager_start(url, NULL);
	fake_manager_free(manager);
	client = fake_client(url);
	cr_assert_eq(fake_call_get(client, 3, &error), STATUS(OK), "%s", error.message);
	rpc_client_destroy(client);
	fake_manager_free(successor);
	cr_assert_eq(rmdir(directory), 0, "the socket's file is left over");
}

struct rival {
	pthread_t thread;
	pthread_barrier_t *start;
	const char *url;
	struct listening listening;
	bool good;
};

static void *compete(void *arg)
{
	struct rival *rival = arg;
	struct reeve_error error;

	pthread_barrier_wait(rival->start);
	rival->good = listening_open(&rival->listening, rival->url, "tcp", 0600, &error);
	return NULL;
}

/* Several servers try to take over one abandoned path at the same moment, many times: one of them gets it each time. */
Test(rpc_server, of_some_that_begin_at_once_one_has_the_path)
{
	enum { ROUNDS = 1000, RIVALS = 4 };
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80];
	struct rival rivals[RIVALS];
	pthread_barrier_t start;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	pthread_barrier_init(&start, NULL, RIVALS);
	for (int round = 0; round < ROUNDS; round++) {
		int winners = 0;

		close(socket_at(path, 0));
		for (int i = 0; i < RIVALS; i++) {
			rivals[i] = (struct rival){.start = &start, .url = url};
			cr_assert_eq(pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
		}
		for (int i = 0; i < RIVALS; i++)
			pthread_join(rivals[i].thread, NULL);
		for (int i = 0; i < RIVALS; i++)
			winners += rivals[i].good;
		for (int i = 0; i < RIVALS; i++)
			listening_close(&rivals[i].listening);
		cr_assert_eq(winners, 1, "round %d", round);
		cr_assert_neq(access(path, F_OK), 0);
	}
	rmdir(directory);
}

/* Any process that may read the directory may lock it. */
Test(rpc_server, a_locked_folder_does_not_prevent_listening)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", url[80];
	struct reeve_error error;
	int folder;

	cr_assert(mkdtemp(directory));
	snprintf(url, sizeof url, "ipc://%s/socket", directory);
	folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(flock(folder, LOCK_EX), 0);
	cr_assert(listens(url, &error), "%s", error.message);
	close(folder);
	cr_assert_eq(rmdir(directory), 0, "a file is left over");
}

Test(rpc_server, takes_a_lock_of_its_own_user_alone)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", lock[64], other[64], url[80];
	struct reeve_error error;
	int fd;

	cr_assert(mkdtemp(directory));
	snprintf(url, sizeof url, "ipc://%s/socket", directory);
	snprintf(lock, sizeof lock, "%s/socket.lock", directory);
	snprintf(other, sizeof other, "%s/other", directory);
	/* A lock file left by a killed process. */
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert(listens(url, &error), "%s", error.message);
	cr_assert_neq(access(lock, F_OK), 0, "the lock's file is left over");
	close(fd);
	/* A lock that another process holds. */
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "another process holds the lock"), "%s", error.message);
	cr_assert_eq(access(lock, F_OK), 0, "another user's lock is gone");
	flock(fd, LOCK_UN);
	/* A file that others may open, and therefore lock. */
	cr_assert_eq(fchmod(fd, 0644), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "socket.lock is not a file of this user alone"), "%s", error.message);
	close(fd);
	unlink(lock);
	if (geteuid() == 0) {
		fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		cr_assert_eq(fchown(fd, 65534, 65534), 0);
		cr_assert_not(listens(url, &error));
		cr_assert(strstr(error.message, "socket.lock is not a file of this user alone"), "%s", error.message);
		close(fd);
		unlink(lock);
	}
	/* A symbolic link. */
	cr_assert_eq(symlink(other, lock), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "socket.lock is not a file of this user alone"), "%s", error.message);
	cr_assert_neq(access(other, F_OK), 0, "it was made where the link leads");
	unlink(lock);
	cr_assert_eq(rmdir(directory), 0, "a file is left over");
}

Test(rpc_server, says_why_it_cannot_listen)
{
	char url[256];
	struct reeve_error error;

	memset(url, 'x', sizeof url - 1);
	url[sizeof url - 1] = 0;
	memcpy(url, "ipc:///", 7);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "the path has 249 bytes; a socket's may have 107"), "%s", error.message);
	cr_assert_not(listens("tcp://no-such-name.invalid:7171", &error));
	cr_assert(strstr(error.message, "cannot look up \"no-such-name.invalid\": "), "%s", error.message);
	cr_assert_not(listens("tcp://192.0.2.1:7171", &error));
	cr_assert(strstr(error.message, "not an address of this machine"), "%s", error.message);
	cr_assert_not(listens("ipc:///nowhere/at/all", &error));
	cr_assert(strstr(error.message, "no such file or directory"), "%s", error.message);
}

Test(rpc_server, accepts_again_after_running_out_of_descriptors)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rlimit limit;
	struct rpc_client *client;
	int fds[64], count = 0, probe;

	/* Leaves a few descriptors free; each connection takes one at either end. */
	probe = dup(0);
	close(probe);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)probe + 21;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (count < 64 && (fds[count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0) {
		struct sockaddr_in address = {.sin_family = AF_INET};

		address.sin_port = htons((uint16_t)port_of(manager->host.url));
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		cr_assert_eq(connect(fds[count++], (struct sockaddr *)&address, sizeof address), 0);
	}
	cr_assert_lt(count, 64);
	pause_ms(200);
	while (count > 0)
		close(fds[--count]);
	client = fake_client(manager->host.url);
	cr_assert(rpc_client_alive(client, 5000));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

/* A connection that has sent no hello for a second is closed to make room, long before it would be closed for its
 * silence. */
Test(rpc_server, idle_connections_make_capacity_when_descriptors_have_run_out)
{
	enum { IDLE = 40 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(manager->host.url))};
	struct timeval patience = {4, 0};
	struct rlimit limit;
	int fds[IDLE + 1], probe;
	uint8_t greeting[8];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i <= IDLE; i++)
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	probe = dup(0);
	close(probe);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)probe + 21;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i <= IDLE; i++)
		cr_assert_eq(connect(fds[i], (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_eq(send(fds[IDLE], "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL), 8);
	setsockopt(fds[IDLE], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	cr_assert_eq(recv(fds[IDLE], greeting, 8, MSG_WAITALL), 8);
	for (int i = 0; i <= IDLE; i++)
		close(fds[i]);
	fake_manager_free(manager);
}
