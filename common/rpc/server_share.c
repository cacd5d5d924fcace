/*
 * Equal reads share an answer: calls of one method, by one identity, with the same request. A caller may accept an
 * answer of some age. Then its call gets the last answer to an equal call, or waits for the answer to an equal call
 * that is being served. So the cost of a page to the database does not grow with the number of browser tabs that show
 * it.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	KEEP_MS = 1000,              /* how old a kept answer may be, from the begin of its call */
	KEEP_BYTES = 16 << 20,       /* of all kept answers, with their requests */
	REQUEST_MAX_BYTES = 4 << 10, /* a longer request is served by itself */
};

struct share {
	struct rpc_call *first;   /* is served, also for those that wait; NULL: it has been answered */
	struct rpc_call *waiting; /* equal calls */
	int64_t began_ms;
	struct rpc_identity *identity;
	uint8_t *answer; /* packed */
	size_t answer_length, key_length;
	UT_hash_handle hh;
	uint8_t key[]; /* method, identity, request */
};

/* Returns what a kept answer takes of KEEP_BYTES. */
static size_t kept_size(const struct share *share)
{
	return sizeof *share + share->key_length + share->answer_length;
}

static void share_free(struct share *share)
{
	rpc_identity_release(share->identity);
	free(share->answer);
	free(share);
}

/* Removes a share whose first call has been answered. */
static void forget(struct rpc_server *server, struct share *share)
{
	HASH_DEL(server->shares, share);
	server->kept_bytes -= kept_size(share);
	share_free(share);
}

static struct share *create(struct rpc_call *first, const struct envelope_view *request)
{
	const void *parts[] = {first->method, first->identity};
	struct share *share = mem_calloc(1, sizeof *share + sizeof parts + request->length);

	share->identity = first->identity;
	share->began_ms = clock_monotonic_ms();
	share->key_length = sizeof parts + request->length;
	memcpy(share->key, parts, sizeof parts);
	memcpy(share->key + sizeof parts, request->bytes, request->length);
	return share;
}

static bool is_first(const struct rpc_call *call)
{
	return call->share && call->share->first == call;
}

bool share_awaited(const struct rpc_call *call)
{
	return is_first(call) && call->share->waiting;
}

static void on_waiting_gone(void *call)
{
	server_drop_call(call);
}

/* Makes a call wait for the first one's answer, unless that may be given up much sooner than the call's. */
static bool wait_for_first(struct rpc_call *call, struct share *share)
{
	if (rpc_call_remaining_ms(share->first) < rpc_call_remaining_ms(call) / 2)
		return false;
	call->share = share;
	DL_APPEND2(share->waiting, call, prev_sharing, next_sharing);
	rpc_call_on_closed(call, on_waiting_gone, call);
	return true;
}

static void answer_kept(struct rpc_call *call, const struct share *share)
{
	ProtobufCMessage *answer =
	    protobuf_c_message_unpack(call->method->output, NULL, share->answer_length, share->answer);

	mem_check(answer);
	rpc_call_reply(call, answer);
	protobuf_c_message_free_unpacked(answer, NULL);
}

bool share_join(struct rpc_call *call, const struct rpc_message *message)
{
	struct rpc_server *server = call->server;
	const struct envelope_view *request = &message->envelope.body;
	int64_t age_max_ms = message->max_age_ms < KEEP_MS ? message->max_age_ms : KEEP_MS;
	struct share *share, *found;

	if (!message->max_age_ms || !call->identity || call->identity->check_calls || call->method->class == RPC_WAITING ||
	    request->length > REQUEST_MAX_BYTES)
		return false;
	share = create(call, request);
	HASH_FIND(hh, server->shares, share->key, share->key_length, found);
	if (found && !found->first && clock_monotonic_ms() - found->began_ms > age_max_ms) {
		forget(server, found);
		found = NULL;
	}
	if (!found) {
		share->identity->references++;
		share->first = call;
		call->share = share;
		HASH_ADD_KEYPTR(hh, server->shares, share->key, share->key_length, share);
		return false;
	}
	free(share);
	if (found->first)
		return wait_for_first(call, found);
	answer_kept(call, found);
	return true;
}

/* Takes one of the calls that wait out of the list; NULL: there is none. */
static struct rpc_call *take_waiting(struct share *share)
{
	struct rpc_call *call = share->waiting;

	if (!call)
		return NULL;
	DL_DELETE2(share->waiting, call, prev_sharing, next_sharing);
	call->share = NULL;
	call->closed = NULL;
	return call;
}

/* Returns the share of a call that is answered now, if others share its answer, without that call. */
static struct share *end_first(struct rpc_call *first)
{
	struct share *share = first->share;

	if (!is_first(first))
		return NULL;
	HASH_DEL(first->server->shares, share);
	first->share = NULL;
	return share;
}

void share_reply(struct rpc_call *first, const ProtobufCMessage *response)
{
	struct rpc_server *server = first->server;
	struct share *share = end_first(first);
	struct rpc_call *call;

	if (!share)
		return;
	while ((call = take_waiting(share)))
		rpc_call_reply(call, response);
	share->first = NULL;
	share->answer_length = protobuf_c_message_get_packed_size(response);
	if (server->kept_bytes + kept_size(share) > KEEP_BYTES || clock_monotonic_ms() - share->began_ms > KEEP_MS) {
		share_free(share);
		return;
	}
	share->answer = mem_malloc(share->answer_length + 1);
	protobuf_c_message_pack(response, share->answer);
	server->kept_bytes += kept_size(share);
	HASH_ADD_KEYPTR(hh, server->shares, share->key, share->key_length, share);
}

void share_fail(struct rpc_call *first, reeve_status code, const char *text)
{
	struct share *share = end_first(first);
	struct rpc_call *call;

	if (!share)
		return;
	while ((call = take_waiting(share)))
		rpc_call_fail(call, code, "%s", text);
	share_free(share);
}

void share_leave(struct rpc_call *call)
{
	struct share *share = call->share;
	struct rpc_call *first;

	if (!share)
		return;
	first = share->first;
	if (first == call) {
		share_fail(call, STATUS(UNAVAILABLE), "the manager has no answer; try again");
		return;
	}
	DL_DELETE2(share->waiting, call, prev_sharing, next_sharing);
	call->share = NULL;
	if (!share->waiting && rpc_call_gone(first))
		server_notify_closed(first);
}

void share_sweep(struct rpc_server *server)
{
	int64_t since_ms = clock_monotonic_ms() - KEEP_MS;
	struct share *share, *next;

	HASH_ITER (hh, server->shares, share, next)
		if (!share->first && share->began_ms < since_ms)
			forget(server, share);
}

void share_end_all(struct rpc_server *server)
{
	struct share *share, *next;

	HASH_ITER (hh, server->shares, share, next) {
		while (share->waiting)
			server_drop_call(take_waiting(share));
		if (share->first)
			share_free(end_first(share->first));
		else
			forget(server, share);
	}
}
