/* Answers that equal reads share. */
#include "tests/unit/manager/http/fixture.h"

#include "common/rpc/server_internal.h"

#include <string.h>
#include <unistd.h>

static const char stats[] =
    "POST /reeve.v1.AdminService/Stats HTTP/1.1\r\nHost: localhost\r\nCache-Control: max-age=1\r\n"
    "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

static void answer(struct fake_manager *manager, void *arg)
{
	struct fake_parked *parked = arg;

	(void)manager;
	rpc_call_fail(parked->call, STATUS(ABORTED), "as the test wants it");
	parked->call = NULL;
}

/* Its only caller has gone, so the method gives the first one up; that may take a while. */
Test(http_shared, no_read_waits_for_one_that_was_given_up)
{
	struct fixture fixture = fixture_open(1 << 20, 0);
	struct fake_manager *manager = fixture.manager;
	int gone = dial(&fixture), next = dial(&fixture);

	send_text(gone, stats);
	fake_manager_await(manager, &manager->n_parked, 1);
	close(gone);
	fake_manager_await(manager, &manager->n_closed, 1);
	send_text(next, stats);
	fake_manager_await(manager, &manager->n_parked, 2);
	fake_manager_do(manager, answer, &manager->parked[0]);
	fake_manager_do(manager, answer, &manager->parked[1]);
	read_until(next, "as the test wants it");
	close(next);
	fixture_close(&fixture);
}

static void read_kept(struct fake_manager *manager, void *arg)
{
	*(size_t *)arg = manager->host.server->kept_bytes;
}

/* Answers are kept for a second; a slow test may see that only at its second try. */
Test(http_shared, requests_count_towards_the_memory_for_kept_answers)
{
	enum { BODY_BYTES = 4000 };
	struct fixture fixture = fixture_open(1 << 20, 0);
	char request[BODY_BYTES + 256];
	int fd = dial(&fixture);
	size_t kept = 0;

	for (int i = 1; i < 20 && !kept; i++) {
		int head = snprintf(request, sizeof request,
		    "POST /reeve.v1.TaskService/Get HTTP/1.1\r\nHost: localhost\r\nCache-Control: max-age=1\r\n"
		    "Content-Type: application/proto\r\nContent-Length: %d\r\n\r\n",
		    BODY_BYTES);
		char *body = request + head;

		/* The id, and a field that this version does not know. */
		memset(body, 'x', BODY_BYTES);
		memcpy(body,
		    (const char[]){
		        8, (char)i, (char)0xFA, 0x3F, (char)((BODY_BYTES - 6) & 127) | (char)0x80, (BODY_BYTES - 6) >> 7},
		    6);
		cr_assert_eq(write(fd, request, (size_t)head + BODY_BYTES), (ssize_t)head + BODY_BYTES);
		read_until(fd, "200 OK");
		fake_manager_do(fixture.manager, read_kept, &kept);
	}
	cr_expect_geq(kept, BODY_BYTES);
	close(fd);
	fixture_close(&fixture);
}
