#include "worker/fetcher.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/rooms.h"

#include <stdlib.h>
#include <string.h>

enum {
	FETCH_WAIT_MS = 14 * 1000, /* maximum time that a Fetch is parked */
	ANSWER_MIN_MS = 1000,      /* minimum time to wait for an answer */
	ANSWER_MAX_MS = 30 * 1000, /* maximum time to wait for an answer */
	EMPTY_RETRY_MS = 500,      /* maximum delay before it asks again whether tasks wait */
	FETCH_QUICK_MS = 100,      /* after an empty answer to a parked Fetch within this time, the next one is delayed */
	/* Results that no manager accepts are kept, but the worker fetches no new tasks beyond this many bytes of them. */
	UNACKED_BYTES_MAX = 64 * 1024 * 1024,
};

/* A Fetch call in flight. */
struct fetch_call {
	struct fetcher *fetcher;
	int64_t answer_ms; /* how long to wait for the answer */
	struct sent_fetch sent;
};

/* Counts the changes of what a Fetch excludes: tasks, and queues for which slots rest. */
static uint64_t changes(const struct fetcher *fetcher)
{
	return fetcher->in_flight->declined.total + fetcher->slots->rests.changes;
}

/* Returns how many more tasks the worker may request. */
static uint32_t free_slots(const struct fetcher *fetcher)
{
	const struct unacked *unacked = &fetcher->in_flight->unacked;
	int64_t fetched = fetcher->fetches->slots;
	int64_t count = slots_capacity(fetcher->slots) - (int64_t)in_flight_unfinished(fetcher->in_flight) - fetched;
	int64_t room = LIMIT_IN_FLIGHT - (int64_t)HASH_COUNT(fetcher->in_flight->all) - fetched; /* in a heartbeat */

	if (count > room)
		count = room;
	if (!lease_runs(fetcher->shared->lease, clock_monotonic_ms()) || count <= 0 ||
	    unacked->waiting_bytes + unacked->reported_bytes > UNACKED_BYTES_MAX)
		return 0;
	return count < LIMIT_CALL_TASKS ? (uint32_t)count : LIMIT_CALL_TASKS;
}

/* Returns true if the tasks that wait at the managers now are all that are left for an until_empty worker. */
static bool may_end(const struct fetcher *fetcher)
{
	return fetcher->until_empty && in_flight_empty(fetcher->in_flight) && !fetcher->slots->rests.count;
}

int64_t fetcher_answer_ms(int64_t ms)
{
	return ms < ANSWER_MIN_MS ? ANSWER_MIN_MS : ms > ANSWER_MAX_MS ? ANSWER_MAX_MS : ms;
}

/* Returns how long the manager may keep a parked Fetch: with the time to wait for the answer, one lease. */
static int64_t park_ms(const struct fetcher *fetcher)
{
	int64_t max_ms = fetcher->session->lease_ms * 2 / 3;

	return max_ms < FETCH_WAIT_MS ? max_ms : FETCH_WAIT_MS;
}

/* Copies the tasks that the Fetch excludes. */
static void exclude_declined(const struct declined *declined, struct sent_fetch *sent)
{
	size_t count = declined_count(declined);

	if (!count)
		return;
	sent->declined = mem_malloc(count * sizeof *sent->declined);
	memcpy(sent->declined, declined->ids, count * sizeof *sent->declined);
	sent->request.exclude_ids = sent->declined;
	sent->request.n_exclude_ids = count;
}

/* Limits the tasks of the queues for which slots rest. `fetch` is among those that the worker waits for. */
static void limit_resting(const struct fetcher *fetcher, const struct fetch *fetch, struct sent_fetch *sent)
{
	int64_t capacity = slots_capacity(fetcher->slots) - (int64_t)(fetcher->fetches->slots - fetch->slots);

	/* Not the prefetch: what waits for the end of a rest, other workers might run. */
	if (capacity > fetcher->slots->concurrency)
		capacity = fetcher->slots->concurrency;
	sent->rests = rests_queue_slots(&fetcher->slots->rests, fetcher->in_flight, capacity, sent->request.slots);
	if (!sent->rests)
		return;
	sent->request.queue_slots = sent->rests->list;
	sent->request.n_queue_slots = sent->rests->count;
}

/* Limits the tasks of handlers that run only so many at once. */
static void limit_types(const struct fetcher *fetcher, struct fetch *fetch, struct sent_fetch *sent)
{
	fetch->promises = rooms_promise(fetcher->handlers->table, fetcher->in_flight, sent->request.slots);
	sent->rooms = rooms_type_slots(fetch->promises, sent->request.slots);
	if (!sent->rooms)
		return;
	sent->request.type_slots = sent->rooms->list;
	sent->request.n_type_slots = sent->rooms->count;
}

void fetcher_release(struct sent_fetch *sent)
{
	accepts_drop(sent->accepts);
	free(sent->declined);
	queue_slots_free(sent->rests);
	type_slots_free(sent->rooms);
}

/* Fills in a Fetch request for a call, and marks the Fetch as in flight. */
static void send(struct fetcher *fetcher, struct fetch *fetch, bool parked, struct sent_fetch *sent)
{
	Reeve__V1__FetchRequest *request = &sent->request;
	const struct session *session = fetcher->session;
	struct accepts *accepts = fetcher->handlers->accepts;

	reeve__v1__fetch_request__init(request);
	request->incarnation = session->incarnation;
	request->fetch_id = fetch->id;
	request->slots = session_takes(session) ? fetch->slots : 1;
	request->queues = session->queues.list;
	request->n_queues = session->queues.count;
	request->types = accepts->types.list;
	request->n_types = accepts->types.count;
	request->wait_ms = parked ? park_ms(fetcher) : 0;
	request->wait_retries = fetcher->wait_retries && !parked && may_end(fetcher);
	request->resend = fetch->sent_before;
	if (!fetcher->in_flight->any_received)
		request->idle_since_start_ms = clock_monotonic_ms() - fetcher->created_ms + 1;
	exclude_declined(&fetcher->in_flight->declined, sent);
	limit_resting(fetcher, fetch, sent);
	limit_types(fetcher, fetch, sent);
	fetches_mark_sent(fetcher->fetches, fetch, parked);
	fetch->changes = changes(fetcher);
	fetch->accepts = sent->accepts = accepts_use(accepts);
	sent->incarnation = session->incarnation;
	sent->fetch_id = fetch->id;
	sent->sent_ms = clock_monotonic_ms();
	sent->parked = parked;
	sent->last_poll = may_end(fetcher) && !parked;
}

bool fetcher_attach(struct fetcher *fetcher, struct sent_fetch *sent)
{
	struct fetch *fetch;
	uint32_t slots;

	if (!session_takes(fetcher->session) || clock_monotonic_ms() < fetcher->fetches->retry.until_ms)
		return false;
	fetch = fetches_unsent(fetcher->fetches);
	slots = fetch ? 0 : free_slots(fetcher);
	if (slots)
		fetch = fetches_create(fetcher->fetches, slots);
	if (fetch)
		send(fetcher, fetch, false, sent);
	return fetch != NULL;
}

/* Returns the Fetch of a call, or NULL if the worker no longer waits for it. */
static struct fetch *find(const struct fetcher *fetcher, const struct sent_fetch *sent)
{
	if (!sent->fetch_id || !session_serves(fetcher->session, sent->incarnation))
		return NULL;
	return fetches_find(fetcher->fetches, sent->fetch_id);
}

bool fetcher_waits_for(const struct fetcher *fetcher, const struct sent_fetch *sent)
{
	return find(fetcher, sent) != NULL;
}

/* Creates attempts from an answer's assignments and takes these out of the answer. `into` has space for all. */
static void create_attempts(
    struct fetcher *fetcher, Reeve__V1__FetchResponse *response, int64_t claimed_ms, struct attempt **into)
{
	int64_t now_ms = clock_monotonic_ms();
	struct handler *handler = NULL;
	const char *type = NULL; /* its type */

	for (size_t i = 0; i < response->n_assignments; i++) {
		Reeve__V1__Assignment *assignment = response->assignments[i];

		response->assignments[i] = NULL;
		if (!type || strcmp(type, assignment->type) != 0)
			handler = handler_find(fetcher->handlers->table, type = assignment->type);
		into[i] = attempt_create(
		    assignment, handler, fetcher->shared->lease, fetcher->session->max_result_bytes, claimed_ms, now_ms);
		into[i]->signer = fetcher->session->signer;
	}
}

/* Returns a time before which the attempts were not claimed: when the Fetch was sent, plus the time it was parked. */
static int64_t claimed_after_ms(const struct sent_fetch *sent, const Reeve__V1__FetchResponse *response)
{
	int64_t parked_ms = response->parked_ms;

	if (parked_ms < 0 || parked_ms > clock_monotonic_ms() - sent->sent_ms)
		parked_ms = 0; /* invalid */
	return sent->sent_ms + parked_ms;
}

/* Ends the worker after an empty answer to the last Fetch of `until_empty`, unless the manager does not know yet
 * whether tasks wait. */
static void apply_empty(struct fetcher *fetcher, const Reeve__V1__FetchResponse *response)
{
	int64_t retry_ms = response->retry_after_ms < EMPTY_RETRY_MS ? response->retry_after_ms : EMPTY_RETRY_MS;

	if (response->retry_after_ms > 0) {
		fetcher->fetches->retry.until_ms = clock_monotonic_ms() + retry_ms;
	} else if (!response->n_commands && session_takes(fetcher->session) && may_end(fetcher)) {
		log_info(fetcher->shared->object, "no task waits any more");
		life_drain(fetcher->life, INT64_MAX);
	}
}

/* Applies the answer to a Fetch that the worker waits for. */
static void accept(
    struct fetcher *fetcher, struct fetch *fetch, const struct sent_fetch *sent, Reeve__V1__FetchResponse *response)
{
	int64_t now_ms = clock_monotonic_ms();
	size_t count = response->n_assignments;
	struct attempt **attempts;

	fetches_remove(fetcher->fetches, fetch);
	backoff_clear(&fetcher->fetches->retry);
	if (sent->parked && !count && now_ms - sent->sent_ms < FETCH_QUICK_MS)
		backoff_fail(&fetcher->fetches->retry, now_ms);
	if (count) {
		attempts = mem_malloc(count * sizeof *attempts);
		create_attempts(fetcher, response, claimed_after_ms(sent, response), attempts);
		in_flight_receive(fetcher->in_flight, attempts, count);
		free(attempts);
	} else if (sent->last_poll) {
		apply_empty(fetcher, response);
	}
	commands_apply_new(fetcher->commands, response->commands, response->n_commands);
}

/* Has the Fetch resent later. */
static void retry(struct fetcher *fetcher, struct fetch *fetch)
{
	fetches_mark_unsent(fetcher->fetches, fetch);
	backoff_fail(&fetcher->fetches->retry, clock_monotonic_ms());
}

void fetcher_answered(struct fetcher *fetcher, const struct sent_fetch *sent, Reeve__V1__FetchResponse *response)
{
	struct fetch *fetch = find(fetcher, sent);

	if (!sent->fetch_id)
		return;
	if (!fetch) {
		log_debug(fetcher->shared->object, "an answer to Fetch %lld of incarnation %lld came too late",
		    (long long)sent->fetch_id, (long long)sent->incarnation);
	} else if (!response) { /* the manager does not know what it assigned: the Fetch stays open and is resent */
		retry(fetcher, fetch);
	} else if (response->incarnation != sent->incarnation || response->fetch_id != sent->fetch_id) {
		log_warn(fetcher->shared->object,
		    "the manager answered Fetch %lld of incarnation %lld to Fetch %lld of incarnation %lld; not "
		    "accepted",
		    (long long)response->fetch_id, (long long)response->incarnation, (long long)sent->fetch_id,
		    (long long)sent->incarnation);
		retry(fetcher, fetch);
	} else {
		accept(fetcher, fetch, sent, response);
	}
}

void fetcher_failed(struct fetcher *fetcher, const struct sent_fetch *sent, reeve_status code)
{
	struct fetch *fetch = find(fetcher, sent);

	if (!fetch)
		return;
	if (code == STATUS(CANCELLED)) { /* by us: it is resent with other parameters */
		fetches_mark_unsent(fetcher->fetches, fetch);
	} else if (code == STATUS(INVALID_ARGUMENT)) { /* nothing was assigned, and a resend would fail again */
		fetches_remove(fetcher->fetches, fetch);
		backoff_fail(&fetcher->fetches->retry, clock_monotonic_ms());
	} else {
		retry(fetcher, fetch);
	}
}

static void fetch_done(void *arg, struct rpc_answer *answer)
{
	struct fetch_call *call = arg;
	struct fetcher *fetcher = call->fetcher;
	const struct sent_fetch *sent = &call->sent;

	shared_lock(fetcher->shared);
	if (answer->code == STATUS(OK)) {
		fetcher_answered(fetcher, sent, (Reeve__V1__FetchResponse *)answer->response);
	} else if ((answer->code == STATUS(FAILED_PRECONDITION) || answer->code == STATUS(NOT_FOUND)) &&
	    fetcher_waits_for(fetcher, sent)) {
		session_lost(fetcher->session, answer->message);
	} else {
		if (answer->code == STATUS(UNAUTHENTICATED))
			session_unauthenticated(fetcher->session, answer->message);
		else if (answer->code != STATUS(CANCELLED) && fetcher_waits_for(fetcher, sent))
			log_warn(fetcher->shared->object, "Fetch %lld failed, trying again: %s", (long long)sent->fetch_id,
			    answer->message);
		fetcher_failed(fetcher, sent, answer->code);
	}
	fetcher_release(&call->sent);
	shared_unlock(fetcher->shared);
	if (answer->response)
		protobuf_c_message_free_unpacked(answer->response, NULL);
	free(call);
	shared_wake(fetcher->shared);
}

/* Returns the slots of a new Fetch for a call of its own; 0: none is due. */
static uint32_t new_slots(const struct fetcher *fetcher)
{
	return session_takes(fetcher->session) && fetcher->fetches->in_flight_count == 0 ? free_slots(fetcher) : 0;
}

/* Creates a call of Fetch if one is due, else returns NULL. */
static struct fetch_call *next_call(struct fetcher *fetcher)
{
	struct fetches *fetches = fetcher->fetches;
	struct fetch *fetch = fetches_unsent(fetches);
	bool takes = session_takes(fetcher->session);
	struct fetch_call *call;
	uint32_t slots;

	if (fetcher->session->phase != SESSION_SERVING || clock_monotonic_ms() < fetches->retry.until_ms)
		return NULL;
	if (!fetch) {
		slots = new_slots(fetcher);
		if (!slots)
			return NULL;
		fetch = fetches_create(fetches, slots);
	}
	call = mem_calloc(1, sizeof *call);
	call->fetcher = fetcher;
	call->answer_ms = fetcher_answer_ms(fetcher->session->lease_ms / 3);
	send(fetcher, fetch, takes && fetches->parked_count == 0 && !may_end(fetcher) && slots_capacity(fetcher->slots),
	    &call->sent);
	return call;
}

/* Returns a call that must be cancelled: one of a lost incarnation, or a parked Fetch while the worker takes no tasks,
 * must know whether any wait, or takes other tasks by now. 0: none. */
static rpc_call_id next_cancel(struct fetcher *fetcher)
{
	struct fetches *fetches = fetcher->fetches;
	bool all = !life_takes(fetcher->life) || may_end(fetcher) || !slots_capacity(fetcher->slots);
	struct fetch *fetch;

	if (fetches->stale_count)
		return fetches->stale[--fetches->stale_count];
	for (fetch = fetches->waiting; fetch; fetch = fetch->next) {
		if (!fetch->parked || fetch->cancelled || !fetch->call ||
		    (!all && fetch->accepts == fetcher->handlers->accepts && fetch->changes == changes(fetcher) &&
		        !rooms_grown(fetch->promises, fetcher->in_flight, fetch->slots)))
			continue;
		fetch->cancelled = true;
		return fetch->call;
	}
	return 0;
}

static void mark_resend(ProtobufCMessage *request, void *arg)
{
	(void)arg;
	((Reeve__V1__FetchRequest *)request)->resend = true;
}

static void start(struct fetch_call *call)
{
	struct fetcher *fetcher = call->fetcher;
	struct rpc_call_options options = {
	    .timeout_ms = call->sent.request.wait_ms + call->answer_ms, .parks = true, .before_resend = mark_resend};
	struct sent_fetch sent = call->sent; /* the call may have ended, and been freed, before the next line */
	rpc_call_id id = rpc_client_start(fetcher->shared->rpc, &reeve__v1__worker_service__descriptor, "Fetch",
	    &call->sent.request.base, &options, fetch_done, call);
	struct fetch *fetch;

	shared_lock(fetcher->shared);
	fetch = find(fetcher, &sent);
	if (fetch && fetch->in_flight)
		fetch->call = id;
	else if (!fetch) /* lost in the meantime; cancelling a call that has ended does nothing */
		fetches_add_stale(fetcher->fetches, id);
	shared_unlock(fetcher->shared);
}

void fetcher_step(struct fetcher *fetcher)
{
	for (;;) {
		struct fetch_call *call = NULL;
		rpc_call_id cancel;

		shared_lock(fetcher->shared);
		cancel = next_cancel(fetcher);
		if (!cancel)
			call = next_call(fetcher);
		shared_unlock(fetcher->shared);
		if (cancel)
			rpc_client_cancel(fetcher->shared->rpc, cancel);
		else if (call)
			start(call);
		else
			return;
	}
}

int64_t fetcher_next_ms(const struct fetcher *fetcher)
{
	const struct fetches *fetches = fetcher->fetches;
	bool due = fetcher->session->phase == SESSION_SERVING && (fetches_unsent(fetches) || new_slots(fetcher));

	return due ? fetches->retry.until_ms : INT64_MAX;
}
