/*
 * Executes SQL for the tests as `psql -XAtq -c` would, but without a psql process and a new PostgreSQL session for each
 * statement, which cost more than most statements.
 *
 *	sql-server SOCKET CONNINFO
 *
 * tests/tools/sql.c sends the statements, together with its standard output and standard error, to which this program
 * writes. Each call has its own session, and finds it like a new one: sessions are kept, and reset after each call. A
 * call without a statement closes the idle ones. The answer is the exit code, one byte, as from psql: 0, 1 after an
 * error, 2 without a connection.
 */
#include "tests/tools/sql.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { KEPT_MAX = 64 };

static const char *conninfo;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static PGconn *kept[KEPT_MAX]; /* idle sessions */
static int kept_count;

struct call {
	int socket;
	FILE *out, *err;
	char *text; /* the statements */
};

/* Returns true if PostgreSQL has ended an idle session: it sends nothing else to a session that has requested
 * nothing. */
static bool has_ended(PGconn *session)
{
	struct pollfd ready = {.fd = PQsocket(session), .events = POLLIN};

	return poll(&ready, 1, 0) != 0;
}

static PGconn *take_kept(void)
{
	PGconn *session = NULL;

	pthread_mutex_lock(&lock);
	if (kept_count > 0)
		session = kept[--kept_count];
	pthread_mutex_unlock(&lock);
	return session;
}

static void close_kept(void)
{
	PGconn *session;

	while ((session = take_kept()))
		PQfinish(session);
}

static void show_notice(void *err, const char *message)
{
	fputs(message, err);
}

static PGconn *take_session(struct call *call)
{
	PGconn *session;

	while ((session = take_kept())) {
		if (!has_ended(session))
			break;
		PQfinish(session);
	}
	if (!session)
		session = PQconnectdb(conninfo);
	if (PQstatus(session) != CONNECTION_OK) {
		fprintf(call->err, "sql: %s", PQerrorMessage(session));
		PQfinish(session);
		return NULL;
	}
	PQsetNoticeProcessor(session, show_notice, call->err);
	return session;
}

static bool do_quietly(PGconn *session, const char *text)
{
	PGresult *result = PQexec(session, text);
	ExecStatusType status = PQresultStatus(result);

	PQclear(result);
	return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* Resets a session as if it had ended: rolls back what it left open, and makes its statistics visible to others at
 * once. */
static bool reset(PGconn *session)
{
	PQsetNoticeProcessor(session, show_notice, stderr);
	return PQstatus(session) == CONNECTION_OK &&
	    (PQtransactionStatus(session) == PQTRANS_IDLE || do_quietly(session, "rollback")) &&
	    do_quietly(session, "discard all") && do_quietly(session, "select pg_stat_force_next_flush()");
}

static void give_back(PGconn *session)
{
	if (reset(session)) {
		pthread_mutex_lock(&lock);
		if (kept_count < KEPT_MAX) {
			kept[kept_count++] = session;
			session = NULL;
		}
		pthread_mutex_unlock(&lock);
	}
	PQfinish(session);
}

static void print_rows(const PGresult *result, FILE *out)
{
	int columns = PQnfields(result);

	for (int row = 0; columns > 0 && row < PQntuples(result); row++) {
		for (int column = 0; column < columns; column++) {
			if (column > 0)
				putc('|', out);
			fwrite(PQgetvalue(result, row, column), 1, (size_t)PQgetlength(result, row, column), out);
		}
		putc('\n', out);
	}
}

/* Executes one simple query, so that several statements are one transaction. Prints the rows that each of them
 * returns. */
static int carry_out(PGconn *session, struct call *call)
{
	PGresult *result;
	int code = SQL_DONE;

	if (!PQsendQuery(session, call->text)) {
		fputs(PQerrorMessage(session), call->err);
		return SQL_FAILED;
	}
	while ((result = PQgetResult(session))) {
		switch (PQresultStatus(result)) {
		case PGRES_TUPLES_OK: print_rows(result, call->out); break;
		case PGRES_COMMAND_OK:
		case PGRES_EMPTY_QUERY: break;
		case PGRES_FATAL_ERROR:
			fputs(PQresultErrorMessage(result), call->err);
			code = SQL_FAILED;
			break;
		default: /* COPY: the session is closed */
			fputs("sql: only psql itself can do this\n", call->err);
			PQclear(result);
			return SQL_UNREACHABLE;
		}
		PQclear(result);
	}
	return PQstatus(session) == CONNECTION_OK ? code : SQL_UNREACHABLE;
}

static int answer(struct call *call)
{
	PGconn *session;
	int code;

	if (!*call->text) {
		close_kept();
		return SQL_DONE;
	}
	session = take_session(call);
	if (!session)
		return SQL_UNREACHABLE;
	code = carry_out(session, call);
	if (code == SQL_UNREACHABLE)
		PQfinish(session);
	else
		give_back(session);
	return code;
}

/* Reads the call's first bytes, which carry its standard output and standard error. Returns the number of bytes, or
 * −1. */
static ssize_t read_streams(struct call *call, char *into, size_t length)
{
	struct iovec part = {.iov_base = into, .iov_len = length};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct msghdr message = {
	    .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t got = recvmsg(call->socket, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int streams[2];

	if (!header || header->cmsg_len != CMSG_LEN(sizeof streams))
		return -1;
	memcpy(streams, CMSG_DATA(header), sizeof streams);
	call->out = fdopen(streams[0], "w");
	call->err = fdopen(streams[1], "w");
	return got;
}

/* Reads the entire call; returns false if it is incomplete. */
static bool read_call(struct call *call)
{
	size_t size = 4096, length = 0;
	ssize_t got;

	call->text = malloc(size);
	got = read_streams(call, call->text, size - 1);
	while (got > 0) {
		length += (size_t)got;
		if (length + 1 == size)
			call->text = realloc(call->text, size *= 2);
		got = read(call->socket, call->text + length, size - 1 - length);
	}
	if (got < 0 || !call->out || !call->err)
		return false;
	call->text[length] = '\0';
	/* The first byte only carries the two descriptors. */
	memmove(call->text, call->text + 1, length);
	return length > 0;
}

static void *serve(void *argument)
{
	struct call *call = argument;

	if (read_call(call)) {
		char code = (char)answer(call);
		/* The output must be complete when the caller gets the answer. */
		fclose(call->out);
		fclose(call->err);
		if (write(call->socket, &code, 1) != 1)
			perror("sql-server: an answer");
	}
	close(call->socket);
	free(call->text);
	free(call);
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1024)) {
		perror(path);
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	int listener;

	if (argc != 3) {
		fprintf(stderr, "usage: sql-server SOCKET CONNINFO\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	conninfo = argv[2];
	listener = listen_at(argv[1]);
	for (;;) {
		struct call *call = calloc(1, sizeof *call);
		pthread_t thread;

		call->socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (call->socket < 0 || pthread_create(&thread, NULL, serve, call)) {
			perror("sql-server");
			exit(1);
		}
		pthread_detach(thread);
	}
}
