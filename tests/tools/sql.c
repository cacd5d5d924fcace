/*
 * Makes a sql-server execute SQL, as `psql -XAtq -c` would. Linked statically, because tests start it very often.
 *
 *	sql SOCKET [STATEMENTS]     without statements, the server closes the sessions that it keeps
 */
#include "tests/tools/sql.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The first byte carries standard output and standard error. */
static int send_streams(int server)
{
	struct iovec part = {.iov_base = "", .iov_len = 1};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(2 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr message = {
	    .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};

	memcpy(CMSG_DATA(&control.header), (int[]){STDOUT_FILENO, STDERR_FILENO}, 2 * sizeof(int));
	return sendmsg(server, &message, MSG_NOSIGNAL) == 1;
}

static int send_all(int server, const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		ssize_t sent = send(server, text, left, MSG_NOSIGNAL);
		if (sent < 0)
			return 0;
		text += sent;
		left -= (size_t)sent;
	}
	return !shutdown(server, SHUT_WR);
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int server = socket(AF_UNIX, SOCK_STREAM, 0);
	char code;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: sql SOCKET [STATEMENTS]\n");
		return SQL_UNREACHABLE;
	}
	snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[1]);
	if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address)) {
		perror(argv[1]);
		return SQL_UNREACHABLE;
	}
	if (!send_streams(server) || !send_all(server, argc > 2 ? argv[2] : "") || read(server, &code, 1) != 1) {
		fprintf(stderr, "sql: the server has ended\n");
		return SQL_UNREACHABLE;
	}
	return code;
}
