/*
 * The lease protocol of Reeve: which worker may run a task, and how a task whose worker is gone goes to another worker.
 *
 * A step is one thing that happens at one moment: the commit of an SQL statement, a message that is composed or
 * processed under the worker's lock, the end of a lease. Every step is atomic, and steps come in any order. Steps,
 * statements, messages and phases have the names that they have in the code, and each step prints what it does.
 * README.md describes what is modelled, what is left out, how to read a trail, and what each run covers.
 *
 * Network. A sent message may arrive never, once or many times, at any later time, in any order, at any manager. So
 * there are no channels: that a message was sent is a fact that stays, and the message may be processed whenever that
 * would have an effect. A frozen process is one that takes no step for a while.
 *
 * PostgreSQL, READ COMMITTED. A statement sees rows as they were when it began, except the row that it updates: after
 * it has locked the row, it checks its conditions again on the latest version (EvalPlanQual). So a statement whose
 * conditions all concern the row that it updates is one step. A statement that reads other rows, or gets what an
 * earlier statement read, is two steps: the read, and at any later time the commit with the check of the updated row.
 * `op` has the statements between these steps. A statement is removed from it as soon as its row has a version that the
 * statement cannot match.
 *
 * Managers have no state that affects these promises: every statement is possible whenever its message was sent or its
 * rows exist. So the model stands for any number of managers, killed and started at any time, with up to OPS such
 * statements in flight in total. It permits everything that a manager may do with a Fetch: call redeliver first, or
 * claim.
 *
 * Time. The model reads no clock. over[i] counts the heartbeats of incarnation i (Register is its heartbeat 0) whose
 * lease, measured from when they were sent, has ended. It may grow at any time. Worker and watchdog compare acked[i]
 * with it, as the code compares its monotonic clock with the deadline. If a manager sees the same hb_seq for a full
 * lease, the lease of that heartbeat, which was sent before the manager first saw it, has ended. Only the variant
 * WITHOUT_WATCHED_EXPIRY has the database's clock, which may jump: no step of the complete protocol reads it.
 */

/* Sizes. Each run sets its own. */
#ifndef TASKS
#define TASKS 1    /* 1 or 2 */
#endif
#ifndef WORKERS
#define WORKERS 2  /* incarnations: of one process that registers again, or of several */
#endif
#ifndef FETCHES
#define FETCHES 1  /* 1 or 2: Fetches of each incarnation */
#endif
#ifndef BEATS
#define BEATS 1    /* 1 to 3: heartbeats of each incarnation, in addition to Register */
#endif
#ifndef OTHERS_FETCHES
#define OTHERS_FETCHES FETCHES /* … of incarnations other than the first */
#endif
#ifndef OTHERS_BEATS
#define OTHERS_BEATS BEATS
#endif
#define BEATS_OF(i) ((i) == 1 -> BEATS : OTHERS_BEATS)
#ifndef ATTEMPTS
#define ATTEMPTS 2 /* 2 to 4: attempts that a process or a message in flight refers to at the same time */
#endif
#ifndef OPS
#define OPS 2      /* 1 to 3 */
#endif

/* The status of a task. While it executes, this is its attempt (the token, last_updated), 1 to ATTEMPTS. */
#define WAITS 0             /* queued, or failed with a retry */
#define ENDED (ATTEMPTS + 1) /* completed, cancelled, dead */

/* Phases of worker processes. PHASE_REGISTERING is PHASE_LOST without unfinished attempts. */
#define PHASE_NONE 0    /* not registered yet */
#define PHASE_SERVING 1
#define PHASE_LOST 2
#define PHASE_OVER 3    /* registered again: the process is now another incarnation */
#define PHASE_LEFT 4    /* ended, its Leave in flight */
#define PHASE_KILLED 5

/* The state of an attempt at its worker. */
#define PLACE_NONE 0     /* not there */
#define PLACE_READY 1
#define PLACE_STARTING 2 /* in a slot: SPAWN_START is in flight to the supervisor */
#define PLACE_RUNNING 3  /* in a slot: its handler runs */
#define PLACE_UNACKED_C 4 /* its result is not acknowledged: completed … */
#define PLACE_UNACKED_F 5 /* … or failed, returned, cancelled, lease_ended */
#define PLACE_GONE 6     /* no longer there */

#define BIT(n) (1 << (n))
#define HELD(a) (place[a] != PLACE_NONE && place[a] != PLACE_GONE)
#define IS_UNACKED(a) (place[a] == PLACE_UNACKED_C || place[a] == PLACE_UNACKED_F)
#define UNFINISHED(a) (place[a] == PLACE_READY || place[a] == PLACE_STARTING || place[a] == PLACE_RUNNING)
#define ALIVE(i) (phase[i] == PHASE_SERVING || phase[i] == PHASE_LOST || phase[i] == PHASE_OVER)
#define GONE(i) (phase[i] == PHASE_OVER || phase[i] == PHASE_LEFT || phase[i] == PHASE_KILLED)
#define EXECUTING(t) (status[t] != WAITS && status[t] != ENDED)

/* The table workers. */
bit lost[WORKERS + 1];
byte hb_seq[WORKERS + 1];

/* The worker of each incarnation. */
byte phase[WORKERS + 1];
byte highest[WORKERS + 1];  /* highest_fetch_id */
byte waiting[WORKERS + 1];  /* waiting_fetch_ids, as bits */
byte sent[WORKERS + 1];     /* the last composed heartbeat */
byte acked[WORKERS + 1];    /* the last heartbeat that was acknowledged while no later one was sent: lease_until_ms */
byte over[WORKERS + 1];     /* the leases of heartbeats below this have ended */

/* The contents of heartbeats, by incarnation and seq. */
#define BEAT(i, s) (((i) - 1) * (BEATS + 1) + (s))
byte beat_held[WORKERS * (BEATS + 1)];
byte beat_highest[WORKERS * (BEATS + 1)];
byte beat_waiting[WORKERS * (BEATS + 1)];

/* The table tasks. A task's open row in assignments is that of its attempt. */
byte status[TASKS + 1];
#ifdef CANCEL
bit cancel_requested[TASKS + 1];
#endif

/* Attempts. A number to which no process and no message refers any more is used again. */
byte att_worker[ATTEMPTS + 1]; /* assignments.worker_id; 0: no such attempt */
byte att_fetch[ATTEMPTS + 1];  /* assignments.fetch_id */
byte att_task[ATTEMPTS + 1];
byte place[ATTEMPTS + 1];
bit answered[ATTEMPTS + 1];    /* a FetchResponse with it was sent */
byte reported[ATTEMPTS + 1];   /* a Report with it was sent, with this result: PLACE_UNACKED_C, PLACE_UNACKED_F */
bit ack_sent[ATTEMPTS + 1];    /* a ReportResponse with its ack was sent */
#ifdef EXPIRY
bit expired[ATTEMPTS + 1];     /* its expiry has passed, by the monotonic clock of the manager that watches it */
#endif
#ifdef WITHOUT_WATCHED_EXPIRY
bit clock_jumped;              /* the expiry has passed by the database's clock, whether it really has or not */
#endif

#ifdef WITHOUT_INCARNATION
byte att_by[ATTEMPTS + 1];     /* the incarnation that accepted it */
#define BY(a) att_by[a]
#else
#define BY(a) att_worker[a]
#endif

/* Statements in flight: kind · 1000 + three digits; 0: none. They are sorted, as it does not matter who sent them. */
short op[OPS];
#define CLAIM 1          /* incarnation, Fetch id, task. At its begin the incarnation was not lost, the task waited */
#define WORKER_LOSE 2    /* incarnation, hb_seq seen */
#define END_LOST 3       /* end_attempts after lost_find: attempt, 0, task */
#define END_REQUEUED 4 /* … requeue_find … */
#define END_EXPIRED 5    /* … expired_find … */
#define LOSE_AND_END 6   /* incarnation, hb_seq seen, attempt: one statement instead of two */
#define OP(kind, x, y, z) ((kind) * 1000 + (x) * 100 + (y) * 10 + (z))
#define KIND(k) (op[k] / 1000)
#define X(k) ((op[k] / 100) % 10)
#define Y(k) ((op[k] / 10) % 10)
#define Z(k) (op[k] % 10)
#define FREE_OP (op[OPS - 1] == 0)

/* Whether P(n, x) is true for an attempt or a statement in flight. */
#if ATTEMPTS == 2
#define SOME_ATTEMPT(P, x) (P(1, x) || P(2, x))
#elif ATTEMPTS == 3
#define SOME_ATTEMPT(P, x) (P(1, x) || P(2, x) || P(3, x))
#else
#define SOME_ATTEMPT(P, x) (P(1, x) || P(2, x) || P(3, x) || P(4, x))
#endif
#if OPS == 1
#define SOME_OP(P, x) P(0, x)
#elif OPS == 2
#define SOME_OP(P, x) (P(0, x) || P(1, x))
#else
#define SOME_OP(P, x) (P(0, x) || P(1, x) || P(2, x))
#endif
#define IS_UNFINISHED_OF(a, i) (BY(a) == i && UNFINISHED(a))
#define STOPPED(i) (!SOME_ATTEMPT(IS_UNFINISHED_OF, i))
#define IS_FREE(a, x) (att_worker[a] == 0)
#define FREE_ATTEMPT SOME_ATTEMPT(IS_FREE, 0)
#define IS_RUNNING_OF(a, t) (att_task[a] == t && place[a] == PLACE_RUNNING)
#define RUNNING(t) SOME_ATTEMPT(IS_RUNNING_OF, t)
#define IS_ENDING(k, a) (X(k) == a && KIND(k) >= END_LOST && KIND(k) <= END_EXPIRED)
#define ENDING(a) SOME_OP(IS_ENDING, a)
#define IS_LOSING(k, i) (X(k) == i && KIND(k) == WORKER_LOSE)
#define LOSING(i) SOME_OP(IS_LOSING, i)
#define IS_OP(k, code) (op[k] == code)
#define UNDER_WAY(code) SOME_OP(IS_OP, code)

/* Runs of the complete protocol use numbers again, so the numbers of incarnations and heartbeats are unbounded. The
 * other runs do not, so that a trail is easier to read and the search ends. */
#if !defined(SHORTEST) && !defined(LIVE)
#define RENUMBERED
#endif

/* ALWAYS_ANSWERED: redeliver may answer a Fetch with its assigned attempts at any time. So it makes no difference
 * whether the answer of the claim was sent, and both cases are one state. */

/* Variants: each removes one safeguard. */
#ifdef WITHOUT_SEQ
byte got[WORKERS + 1]; /* the latest heartbeat that has arrived; hb_seq only counts heartbeats */
#define GOT(i) got[i]
#else
#define GOT(i) hb_seq[i]
#endif
#ifdef WITHOUT_ENDLESS_SWEEP
bit swept[WORKERS + 1];
#define SWEPT(i) swept[i]
#else
#define SWEPT(i) 0
#endif
#ifdef WITHOUT_LOST_CLAIM
#define CLAIMS_FOR(i) 1
#else
#define CLAIMS_FOR(i) !lost[i]
#endif
#ifdef WITHOUT_LOST_HEARTBEAT
#define RENEWS(i) 1
#else
#define RENEWS(i) !lost[i]
#endif
#ifdef WITHOUT_SEEN
#define STILL_SEEN(i, seen) 1
#else
#define STILL_SEEN(i, seen) (hb_seq[i] == (seen))
#endif
#define HAS_SAID(i) (GOT(i) > 0 || beat_highest[BEAT(i, 0)] > 0)
#ifdef WITHOUT_FETCH_BOUND
#define WAS_SENT(i, f) 1
#else
#define WAS_SENT(i, f) ((f) <= beat_highest[BEAT(i, GOT(i))])
#endif
#ifdef WITHOUT_WAITING
#define WAS_SETTLED(i, f) 1
#else
#define WAS_SETTLED(i, f) (!(beat_waiting[BEAT(i, GOT(i))] & BIT(f)))
#endif
#ifdef WITHOUT_HELD
#define WAS_NOT_HELD(i, a) 1
#else
#define WAS_NOT_HELD(i, a) (!(beat_held[BEAT(i, GOT(i))] & BIT(a)))
#endif
#ifdef WITHOUT_TOKEN
#define HAS(t, a) EXECUTING(t)
#else
#define HAS(t, a) (status[t] == (a))
#endif
#ifdef WITHOUT_WATCHED_EXPIRY
#define IS_EXPIRED(a) (expired[a] || clock_jumped)
#else
#define IS_EXPIRED(a) expired[a] /* so the database's clock does not matter */
#endif
#if defined(WITHOUT_DROPPED_ANSWERS) || defined(WITHOUT_INCARNATION)
#define ANSWERS_STAY /* keep answers for which no worker waits */
#endif

#ifdef LIVE
bit calm;            /* no more faults from now on */
bit news[WORKERS + 1]; /* a heartbeat has raised hb_seq, and requeue_find has not run since */
#define CALM calm
#define NEWS(i) news[i]
#else
#define CALM 0
#define NEWS(i) 1
#endif

#ifdef SHORTEST
#define SCRATCH
#else
#define SCRATCH hidden
#endif
/* A condition that must always hold. A run prints the name, a variable that is 0, when the condition is false. */
#define PROMISE(condition, name) assert((condition) || name)
SCRATCH byte no_two_holders, no_handler_starts_without_the_lock, no_lock_is_taken_from_a_running_handler;
SCRATCH byte stale_finish_changes_nothing, stale_statement_changes_nothing;
SCRATCH byte requeue_never_hits_what_is_held, requeue_never_hits_what_will_be_accepted;
SCRATCH byte nobody_is_told_lost_who_is_not, task_whose_worker_is_gone_can_leave_executing;

/* Variables for use within a step; 0 between steps. They are hidden, which means not part of the state. A breadth-first
 * search (SHORTEST) does not support hidden variables. */
SCRATCH byte b, c, k, n, free_a, w_a, w_i;
SCRATCH short swap;
#define DONE RENUMBER; b = 0; c = 0; k = 0; n = 0; free_a = 0; w_a = 0; w_i = 0; swap = 0

/* --- bookkeeping (parts of steps) --------------------------------------------------------------------------------- */

inline sort_ops()
{
	for (c : 1 .. OPS - 1) {
		for (k : 1 .. OPS - 1) {
			if
			:: op[k - 1] < op[k] -> swap = op[k]; op[k] = op[k - 1]; op[k - 1] = swap
			:: else
			fi
		}
	};
	skip
}

inline add_op(code)
{
	op[OPS - 1] = code;
	sort_ops()
}

/* Drops statements in flight that cannot match any more: claims of a task whose version has changed. */
inline drop_claims(t)
{
	for (k : 0 .. OPS - 1) {
		if
		:: KIND(k) == CLAIM && Z(k) == t -> op[k] = 0
		:: else
		fi
	}
	sort_ops()
}

/* The same for worker_lose of a row whose hb_seq has changed, or that is lost. */
inline drop_lose(i)
{
	for (k : 0 .. OPS - 1) {
		if
		:: IS_LOSING(k, i) -> op[k] = 0
		:: else
		fi
	}
	sort_ops()
}

/* The same for end_attempts with a token that the task no longer has. */
inline drop_ends(a)
{
#ifndef WITHOUT_TOKEN
	for (k : 0 .. OPS - 1) {
		if
		:: IS_ENDING(k, a) -> op[k] = 0
		:: else
		fi
	}
	sort_ops()
#else
	skip
#endif
}

/* Frees the number of an attempt that no longer has the task, if no process refers to it and no message with it could
 * have an effect. */
inline forget(a)
{
	if
	:: att_worker[a] != 0 && status[att_task[a]] != a && !HELD(a) && reported[a] == 0 && !ENDING(a) &&
#ifdef ANSWERS_STAY
	    (!answered[a] || !ALIVE(att_worker[a])) ->
#else
	    (!answered[a] || place[a] == PLACE_GONE || phase[att_worker[a]] != PHASE_SERVING ||
	        !(waiting[att_worker[a]] & BIT(att_fetch[a]))) ->
#endif
		att_worker[a] = 0; att_fetch[a] = 0; att_task[a] = 0;
		place[a] = PLACE_NONE; answered[a] = 0; ack_sent[a] = 0;
#ifdef EXPIRY
		expired[a] = 0;
#endif
#ifdef WITHOUT_INCARNATION
		att_by[a] = 0;
#endif
	:: else
	fi
}

/* Forgets answers that no worker will accept any more. For use after a change of a worker's waiting Fetches. */
inline forget_answers()
{
	for (n : 1 .. ATTEMPTS) {
#ifndef ANSWERS_STAY
		if
		:: att_worker[n] != 0 && answered[n] && (place[n] != PLACE_NONE || phase[att_worker[n]] != PHASE_SERVING ||
		       !(waiting[att_worker[n]] & BIT(att_fetch[n]))) -> answered[n] = 0
		:: else
		fi;
#endif
		forget(n)
	};
	skip
}

/* Clears the contents of heartbeats below this one, which are no longer used. */
inline clear_beats(i, below)
{
	for (b : 0 .. BEATS) {
		if
		:: b < below -> beat_held[BEAT(i, b)] = 0; beat_highest[BEAT(i, b)] = 0; beat_waiting[BEAT(i, b)] = 0
		:: else
		fi
	};
	skip
}

/* Normalizes the state of a lost incarnation. Its heartbeats have no effect any more, and a lease that has ended cannot
 * be renewed. If its process is gone too, none of its numbers matters. */
inline normalise_lost(i)
{
#ifndef WITHOUT_LOST_HEARTBEAT
	drop_lose(i);
	clear_beats(i, BEATS + 1);
#ifdef LIVE
	news[i] = 0;
#endif
	if
	:: over[i] > acked[i] && over[i] > GOT(i) || GONE(i) ->
		sent[i] = 0; acked[i] = 0; hb_seq[i] = 0; over[i] = 1;
#ifdef WITHOUT_SEQ
		got[i] = 0;
#endif
	:: else
	fi;
#ifndef WITHOUT_LOST_CLAIM
	if
	:: GONE(i) -> highest[i] = 0
	:: else
	fi
#endif
#else
	skip
#endif
}

/* Renumbers heartbeats from the last one that has both arrived and been acknowledged, so their number is unbounded. */
inline normalise_beats(i)
{
#ifdef RENUMBERED
	if
	:: !lost[i] && acked[i] > 0 && hb_seq[i] > 0 ->
		for (k : 0 .. OPS - 1) {
			if
			:: IS_LOSING(k, i) -> op[k] = op[k] - 10
			:: else
			fi
		}
		sent[i]--; acked[i]--; hb_seq[i]--;
		over[i] = (over[i] > 0 -> over[i] - 1 : 0);
		for (b : 0 .. BEATS - 1) {
			beat_held[BEAT(i, b)] = beat_held[BEAT(i, b + 1)];
			beat_highest[BEAT(i, b)] = beat_highest[BEAT(i, b + 1)];
			beat_waiting[BEAT(i, b)] = beat_waiting[BEAT(i, b + 1)]
		}
		beat_held[BEAT(i, BEATS)] = 0; beat_highest[BEAT(i, BEATS)] = 0; beat_waiting[BEAT(i, BEATS)] = 0
	:: else
	fi
#else
	skip
#endif
}

inline normalise(i)
{
	if
	:: lost[i] -> normalise_lost(i)
	:: else -> normalise_beats(i)
	fi
}

#ifdef RENUMBERED
/* Numbers of incarnations, attempts and tasks are only names: a state in which two of them are exchanged everywhere has
 * the same future. `renumber` gives both states the same numbers, so that the search visits one of them. Each is
 * sorted by a key that does not depend on how the things that are sorted later are numbered. If two keys are equal, the
 * order stays as it is; then the search may visit both states. */
#if FETCHES == OTHERS_FETCHES && BEATS == OTHERS_BEATS
#define FIRST_ALIKE 1 /* the incarnations from this one on have the same sizes */
#else
#define FIRST_ALIKE 2
#endif
c_code {
	#define EACH_OP(k, has) for (k = 0; k < OPS; k++) if (has)
	#define OP_KIND(k) (now.op[k] / 1000)
	#define OP_X(k) (now.op[k] / 100 % 10)
	#define OP_Z(k) (now.op[k] % 10)
	#define OP_IS_END(k) (OP_KIND(k) >= END_LOST && OP_KIND(k) <= END_EXPIRED)
	typedef unsigned long long sort_key;

	static void exchange(uchar *column, int x, int y)
	{
		uchar before = column[x];
		column[x] = column[y];
		column[y] = before;
	}

	static uchar exchanged(uchar number, int x, int y)
	{
		return number == x ? y : number == y ? x : number;
	}

	/* What is known of an attempt, apart from its incarnation, its task, and the heartbeats and statements with it. */
	static sort_key own_key(int a)
	{
		sort_key key = now.place[a];
		key = key << 3 | now.reported[a];
		key = key << 1 | now.answered[a];
		key = key << 1 | now.ack_sent[a];
		key = key << 2 | now.att_fetch[a];
		key = key << 1 | (now.att_task[a] && now.status[now.att_task[a]] == a);
		#ifdef EXPIRY
		key = key << 1 | now.expired[a];
		#endif
		return key;
	}

	static sort_key attempt_key(int a)
	{
		sort_key key = (sort_key)now.att_worker[a] << 2 | now.att_task[a];
		int k;
		key = key << 14 | own_key(a);
		for (k = 0; k < WORKERS * (BEATS + 1); k++)
			key = key << 1 | (now.beat_held[k] >> a & 1);
		key <<= 3;
		EACH_OP(k, OP_IS_END(k) && OP_X(k) == a)
			key += OP_KIND(k);
		return key;
	}

	static void exchange_attempts(int x, int y)
	{
		int k, bits;
		exchange(now.att_worker, x, y);
		exchange(now.att_fetch, x, y);
		exchange(now.att_task, x, y);
		exchange(now.place, x, y);
		exchange(now.answered, x, y);
		exchange(now.reported, x, y);
		exchange(now.ack_sent, x, y);
		#ifdef EXPIRY
		exchange(now.expired, x, y);
		#endif
		for (k = 1; k <= TASKS; k++)
			now.status[k] = exchanged(now.status[k], x, y);
		for (k = 0; k < WORKERS * (BEATS + 1); k++) {
			bits = now.beat_held[k];
			if ((bits >> x & 1) != (bits >> y & 1))
				now.beat_held[k] = bits ^ (1 << x | 1 << y);
		}
		EACH_OP(k, OP_IS_END(k))
			now.op[k] += (exchanged(OP_X(k), x, y) - OP_X(k)) * 100;
	}

	/* The sum of the keys of the attempts and claims with this number in `column` and in the digit `unit` of claims. */
	static sort_key tied_key(const uchar *column, int number, int unit)
	{
		sort_key key = 0;
		int k;
		for (k = 1; k <= ATTEMPTS; k++)
			if (now.att_worker[k] && column[k] == number)
				key += own_key(k) + 1;
		EACH_OP(k, OP_KIND(k) == CLAIM && now.op[k] / unit % 10 == number)
			key += 1 << 20;
		return key;
	}

	static sort_key worker_key(int i)
	{
		sort_key key = now.phase[i];
		int k;
		key = key << 1 | now.lost[i];
		key = key << 2 | now.hb_seq[i];
		key = key << 2 | now.highest[i];
		key = key << 3 | now.waiting[i];
		key = key << 2 | now.sent[i];
		key = key << 2 | now.acked[i];
		key = key << 3 | now.over[i];
		for (k = 0; k <= BEATS; k++)
			key = key << 5 | now.beat_highest[BEAT(i, k)] << 3 | now.beat_waiting[BEAT(i, k)];
		return key << 24 | tied_key(now.att_worker, i, 100);
	}

	static void exchange_workers(int x, int y)
	{
		int k;
		exchange(now.lost, x, y);
		exchange(now.hb_seq, x, y);
		exchange(now.phase, x, y);
		exchange(now.highest, x, y);
		exchange(now.waiting, x, y);
		exchange(now.sent, x, y);
		exchange(now.acked, x, y);
		exchange(now.over, x, y);
		for (k = 0; k <= BEATS; k++) {
			exchange(now.beat_held, BEAT(x, k), BEAT(y, k));
			exchange(now.beat_highest, BEAT(x, k), BEAT(y, k));
			exchange(now.beat_waiting, BEAT(x, k), BEAT(y, k));
		}
		for (k = 1; k <= ATTEMPTS; k++)
			now.att_worker[k] = exchanged(now.att_worker[k], x, y);
		EACH_OP(k, OP_KIND(k) == CLAIM || OP_KIND(k) == WORKER_LOSE)
			now.op[k] += (exchanged(OP_X(k), x, y) - OP_X(k)) * 100;
	}

	static sort_key task_key(int t)
	{
		sort_key key = now.status[t] == WAITS ? 0 : now.status[t] == ENDED ? 1 : 2;
		#ifdef CANCEL
		key = key << 1 | now.cancel_requested[t];
		#endif
		return key << 24 | tied_key(now.att_task, t, 1);
	}

	static void exchange_tasks(int x, int y)
	{
		int k;
		exchange(now.status, x, y);
		#ifdef CANCEL
		exchange(now.cancel_requested, x, y);
		#endif
		for (k = 1; k <= ATTEMPTS; k++)
			now.att_task[k] = exchanged(now.att_task[k], x, y);
		EACH_OP(k, OP_KIND(k) == CLAIM || OP_IS_END(k))
			now.op[k] += exchanged(OP_Z(k), x, y) - OP_Z(k);
	}

	/* Sorts from the greatest key to the least, so that free numbers come last. */
	static void sort_from(int first, int last, sort_key (*key)(int), void (*exchange_both)(int, int))
	{
		int end, n;
		for (end = last; end > first; end--)
			for (n = first; n < end; n++)
				if (key(n) < key(n + 1))
					exchange_both(n, n + 1);
	}

	/* Frees the number of a lost incarnation whose process is gone, if no attempt and no claim in flight refers to it.
	 * Its messages that are still in flight have no effect. */
	static void retire(int i)
	{
		int k, gone = now.phase[i] == PHASE_OVER || now.phase[i] == PHASE_LEFT || now.phase[i] == PHASE_KILLED;
		if (!now.lost[i] || !gone)
			return;
		for (k = 1; k <= ATTEMPTS; k++)
			if (now.att_worker[k] == i)
				return;
		EACH_OP(k, OP_KIND(k) == CLAIM && OP_X(k) == i)
			return;
		now.lost[i] = 0;
		now.phase[i] = PHASE_NONE;
		now.over[i] = 0;
	}

	static void renumber(void)
	{
		int end, k;
		for (k = 1; k <= WORKERS; k++)
			retire(k);
		sort_from(FIRST_ALIKE, WORKERS, worker_key, exchange_workers);
		sort_from(1, TASKS, task_key, exchange_tasks);
		sort_from(1, ATTEMPTS, attempt_key, exchange_attempts);
		for (end = OPS - 1; end > 0; end--)
			for (k = 0; k < end; k++)
				if (now.op[k] < now.op[k + 1]) {
					short before = now.op[k];
					now.op[k] = now.op[k + 1];
					now.op[k + 1] = before;
				}
	}
};
#define RENUMBER c_code { renumber(); }
#else
#define RENUMBER skip
#endif

/* --- effects of commits ------------------------------------------------------------------------------------------- */

/* Ends attempt `a`: the task's row gets a new version without it. */
inline attempt_over(a, becomes)
{
	status[att_task[a]] = becomes;
	drop_ends(a);
#ifdef RENUMBERED
	/* How its handler ended makes no difference any more. */
	if
	:: reported[a] == PLACE_UNACKED_C -> reported[a] = PLACE_UNACKED_F
	:: else
	fi;
	if
	:: place[a] == PLACE_UNACKED_C -> place[a] = PLACE_UNACKED_F
	:: else
	fi;
#endif
	for (b : 0 .. WORKERS * (BEATS + 1) - 1) {
		beat_held[b] = beat_held[b] & ~BIT(a)
	}
	forget(a)
}

/* Ends an attempt that did not complete. */
inline give_back(a)
{
#ifdef CANCEL
	if
	:: cancel_requested[att_task[a]] -> attempt_over(a, ENDED)
	:: else -> attempt_over(a, WAITS)
	fi
#else
	attempt_over(a, WAITS)
#endif
}

/* end_attempts for an attempt that a manager found by the statement that `kind` names. `a` is the token. Sets `w_a` to
 * the attempt that has the task. */
inline end_attempts(a, t, kind)
{
	if
	:: HAS(t, a) ->
		w_a = status[t];
		if
		:: kind == END_LOST -> printf("end_attempts: %d, lost\n", w_a)
		:: kind == END_REQUEUED -> printf("end_attempts: %d, requeued\n", w_a)
		:: else -> printf("end_attempts: %d, expired\n", w_a)
		fi;
		PROMISE(w_a == a, stale_statement_changes_nothing);
		PROMISE(place[w_a] != PLACE_RUNNING, no_lock_is_taken_from_a_running_handler);
		if
		:: kind == END_REQUEUED ->
			PROMISE(!HELD(w_a), requeue_never_hits_what_is_held);
			PROMISE(!(phase[att_worker[w_a]] == PHASE_SERVING && (waiting[att_worker[w_a]] & BIT(att_fetch[w_a]))),
			    requeue_never_hits_what_will_be_accepted)
		:: else
		fi;
		give_back(w_a)
	:: else
	fi
}

/* worker_lose. Checks the current version of the row. */
inline worker_lose(i, seen)
{
	if
	:: !lost[i] && STILL_SEEN(i, seen) ->
		printf("worker_lose: incarnation %d, its heartbeats stood still at %d\n", i, seen);
		lost[i] = 1;
		normalise_lost(i)
	:: else
	fi
}

/* The conditions of the reading statements. requeue_find uses the contents of the heartbeat that last raised hb_seq:
 * a later heartbeat permits every requeue that an earlier one permits. */
#define WORKERS_WATCH(i) (phase[i] != PHASE_NONE && !lost[i] && over[i] > GOT(i))
#define LOST_FIND(a) (att_worker[a] != 0 && status[att_task[a]] == a && lost[att_worker[a]] && !SWEPT(att_worker[a]))
#define REQUEUE_FIND(a) (att_worker[a] != 0 && status[att_task[a]] == a && !lost[att_worker[a]] && \
	HAS_SAID(att_worker[a]) && WAS_SENT(att_worker[a], att_fetch[a]) && \
	WAS_SETTLED(att_worker[a], att_fetch[a]) && WAS_NOT_HELD(att_worker[a], a))

/* --- a worker: its process, its lease, its row -------------------------------------------------------------------- */

/* A lease ends. The watchdog has killed the handlers that ran under it. */
inline lease_ends(i)
{
	printf("the lease of incarnation %d by heartbeat %d ends\n", i, over[i]);
	over[i]++;
#ifndef WITHOUT_WATCHDOG
	if
	:: acked[i] < over[i] ->
		for (c : 1 .. ATTEMPTS) {
			if
			:: att_worker[c] != 0 && BY(c) == i && place[c] == PLACE_RUNNING ->
				if
				:: ALIVE(i) -> place[c] = PLACE_UNACKED_F
				:: else -> place[c] = PLACE_GONE
				fi
			:: else
			fi
		}
		forget_answers()
	:: else
	fi;
#endif
	normalise(i)
}

/* Composes a heartbeat from one snapshot. */
inline heartbeat_compose(i)
{
	sent[i]++;
	beat_highest[BEAT(i, sent[i])] = highest[i];
	beat_waiting[BEAT(i, sent[i])] = waiting[i];
	for (k : 1 .. ATTEMPTS) {
		if
		:: att_worker[k] == i && HELD(k) -> beat_held[BEAT(i, sent[i])] = beat_held[BEAT(i, sent[i])] | BIT(k)
		:: else
		fi
	}
	printf("Heartbeat %d of incarnation %d: highest_fetch_id %d, waiting_fetch_ids (bits) %d, held (bits) %d\n",
	    sent[i], i, highest[i], waiting[i], beat_held[BEAT(i, sent[i])])
}

/* Ends a process. The contents of its memory are lost. Its handlers continue until the watchdog has killed them. */
inline process_ends(i, how)
{
	phase[i] = how;
	waiting[i] = 0;
	for (c : 1 .. ATTEMPTS) {
		if
		:: att_worker[c] != 0 && BY(c) == i && HELD(c) && place[c] != PLACE_RUNNING -> place[c] = PLACE_GONE
		:: else
		fi
	}
	forget_answers();
	normalise(i)
}

inline session_lost(i)
{
	printf("session_lost: incarnation %d is told that it is lost\n", i);
	PROMISE(lost[i], nobody_is_told_lost_who_is_not);
	phase[i] = PHASE_LOST;
	waiting[i] = 0;
	for (c : 1 .. ATTEMPTS) {
		if
		:: att_worker[c] != 0 && BY(c) == i && place[c] == PLACE_READY -> place[c] = PLACE_UNACKED_F
		:: else
		fi
	}
	forget_answers()
}

/* heartbeat with seq s. All its conditions concern the row that it updates. Copies and older heartbeats match no row.
 * worker_lookup then distinguishes them from those of a lost worker, and they are answered OK like the first. */
#ifdef WITHOUT_SEQ
#define HEARTBEAT_COMES(i, s) (sent[i] >= s && RENEWS(i))
#else
#define HEARTBEAT_COMES(i, s) (sent[i] >= s && hb_seq[i] < s && RENEWS(i))
#endif
inline heartbeat(i, s)
{
	printf("heartbeat: %d of incarnation %d comes, hb_seq is raised\n", s, i);
#ifdef WITHOUT_SEQ
	hb_seq[i] = 1 + hb_seq[i] % 2; /* only a different number */
	if
	:: got[i] < s -> got[i] = s
	:: else
	fi;
#else
	hb_seq[i] = s;
#endif
	clear_beats(i, GOT(i));
#ifdef LIVE
	news[i] = 1;
#endif
#if !defined(WITHOUT_SEEN) && !defined(WITHOUT_TWO_COMMITS)
	drop_lose(i);
#endif
	normalise_beats(i)
}

/* Incarnations get the lowest free number. */
#if WORKERS == 2
#define IS_NEXT(i) (phase[i] == PHASE_NONE && (i == 1 || phase[1] != PHASE_NONE))
#else
#define IS_NEXT(i) (phase[i] == PHASE_NONE && (i == 1 || phase[1] != PHASE_NONE) && (i < 3 || phase[2] != PHASE_NONE))
#endif
#define AGAIN_FROM(i, before) (IS_NEXT(i) && phase[before] == PHASE_LOST && STOPPED(before))
inline registers_again(i, before)
{
	printf("register: incarnation %d, of the same process; previous %d is lost\n", i, before);
	phase[i] = PHASE_SERVING;
	phase[before] = PHASE_OVER;
	lost[before] = 1;
	normalise_lost(before)
}

proctype worker(byte i)
{
end:	do
	/* the process */
	:: d_step { IS_NEXT(i) && !CALM ->
		printf("register: incarnation %d, of a new process\n", i);
		phase[i] = PHASE_SERVING; DONE }
#ifdef AGAIN
	:: d_step { AGAIN_FROM(i, 1) -> registers_again(i, 1); DONE }
	:: d_step { AGAIN_FROM(i, 2) -> registers_again(i, 2); DONE }
#if WORKERS > 2
	:: d_step { AGAIN_FROM(i, 3) -> registers_again(i, 3); DONE }
#endif
#endif
	:: d_step { (phase[i] == PHASE_SERVING || phase[i] == PHASE_LOST) && !CALM ->
		printf("the process of incarnation %d is killed\n", i);
		process_ends(i, PHASE_KILLED); DONE }
#ifdef LEAVING
	:: d_step { phase[i] == PHASE_SERVING && STOPPED(i) && !CALM ->
		printf("Leave of incarnation %d, its process ends\n", i);
		process_ends(i, PHASE_LEFT); DONE }
	:: d_step { phase[i] == PHASE_LEFT && !lost[i] ->
		printf("leave: incarnation %d is lost\n", i);
		lost[i] = 1;
		normalise_lost(i); DONE }
#endif
	/* HeartbeatResponse with `lost`, or FAILED_PRECONDITION to a Fetch */
	:: d_step { phase[i] == PHASE_SERVING && lost[i] -> session_lost(i); DONE }
#ifdef WITHOUT_LOOK
	:: d_step { phase[i] == PHASE_SERVING && sent[i] > acked[i] && hb_seq[i] >= sent[i] -> session_lost(i); DONE }
#endif
	/* its lease */
	:: d_step { phase[i] != PHASE_NONE && over[i] <= sent[i] && !(lost[i] && GONE(i)) -> lease_ends(i); DONE }
	:: d_step { phase[i] == PHASE_SERVING && sent[i] < BEATS_OF(i) && (RENEWS(i) || over[i] <= acked[i]) ->
		heartbeat_compose(i); DONE }
	:: d_step { phase[i] == PHASE_SERVING && acked[i] < sent[i] && GOT(i) >= sent[i] ->
		printf("HeartbeatResponse %d to incarnation %d: its lease is renewed\n", sent[i], i);
		acked[i] = sent[i];
		normalise(i); DONE }
	/* its row */
	:: d_step { HEARTBEAT_COMES(i, 1) -> heartbeat(i, 1); DONE }
#if BEATS > 1
	:: d_step { HEARTBEAT_COMES(i, 2) -> heartbeat(i, 2); DONE }
#endif
#if BEATS > 2
	:: d_step { HEARTBEAT_COMES(i, 3) -> heartbeat(i, 3); DONE }
#endif
	od
}

/* The steps that managers take for an incarnation without a message. */
proctype watch(byte i)
{
end:	do
	:: d_step { WORKERS_WATCH(i) && FREE_OP && !LOSING(i) ->
		printf("workers_watch: incarnation %d has stood still at %d for a lease\n", i, hb_seq[i]);
		add_op(OP(WORKER_LOSE, i, hb_seq[i], 0)); DONE }
#ifdef WITHOUT_ENDLESS_SWEEP
	:: d_step { lost[i] && !swept[i] ->
		printf("lost_find: incarnation %d has nothing more\n", i);
		swept[i] = 1; DONE }
#endif
	od
}

/* --- a Fetch, alone or with a Report ------------------------------------------------------------------------------ */

inline claim_begins(i, f, t)
{
	printf("claim begins: task %d for Fetch %d of incarnation %d\n", t, f, i);
	add_op(OP(CLAIM, i, f, t))
}

#ifdef CANCEL
#define CLAIMABLE(t) (status[t] == WAITS && !cancel_requested[t])
#else
#define CLAIMABLE(t) (status[t] == WAITS)
#endif

proctype fetch(byte i; byte f)
{
end:	do
	:: d_step { phase[i] == PHASE_SERVING && highest[i] == f - 1 && !CALM ->
		printf("Fetch %d of incarnation %d\n", f, i);
		highest[i] = f;
		waiting[i] = waiting[i] | BIT(f); DONE }
	/* An empty answer, INVALID_ARGUMENT, or the worker's own deadline. */
	:: d_step { phase[i] == PHASE_SERVING && (waiting[i] & BIT(f)) ->
		printf("Fetch %d of incarnation %d is settled with nothing\n", f, i);
		waiting[i] = waiting[i] & ~BIT(f);
		forget_answers(); DONE }
	/* A manager has received the Fetch, the first copy or another. */
	:: d_step { phase[i] != PHASE_NONE && highest[i] >= f && CLAIMS_FOR(i) && CLAIMABLE(1) && FREE_OP &&
		!UNDER_WAY(OP(CLAIM, i, f, 1)) -> claim_begins(i, f, 1); DONE }
#if TASKS > 1
	:: d_step { phase[i] != PHASE_NONE && highest[i] >= f && CLAIMS_FOR(i) && CLAIMABLE(2) && FREE_OP &&
		!UNDER_WAY(OP(CLAIM, i, f, 2)) -> claim_begins(i, f, 2); DONE }
#endif
	od
}

/* --- statements in flight ----------------------------------------------------------------------------------------- */

/* Commits a claim, with a new attempt. Its version of the task is still the latest; otherwise it would not be in op. */
inline claim_commits(x, is_answered)
{
	for (n : 1 .. ATTEMPTS) {
		if
		:: att_worker[n] == 0 -> free_a = n
		:: else
		fi
	}
	att_worker[free_a] = X(x);
	att_fetch[free_a] = Y(x);
	att_task[free_a] = Z(x);
	status[Z(x)] = free_a;
#ifdef ALWAYS_ANSWERED
	answered[free_a] = 1;
#else
	answered[free_a] = is_answered;
#endif
#ifdef WITHOUT_INCARNATION
	att_by[free_a] = X(x);
#endif
	if
	:: is_answered ->
		printf("claim commits: attempt %d at task %d; FetchResponse to Fetch %d of incarnation %d\n", free_a, Z(x),
		    Y(x), X(x))
	:: else ->
		printf("claim commits: attempt %d at task %d for Fetch %d of incarnation %d; nobody is told\n", free_a, Z(x),
		    Y(x), X(x))
	fi;
	drop_claims(att_task[free_a]);
	forget_answers()
}

proctype statement(byte x)
{
end:	do
	:: d_step { KIND(x) == CLAIM && FREE_ATTEMPT -> claim_commits(x, 1); DONE }
	/* The connection or the manager was lost before the answer. */
#ifndef ALWAYS_ANSWERED
	:: d_step { KIND(x) == CLAIM && FREE_ATTEMPT && !CALM -> claim_commits(x, 0); DONE }
#endif
	:: d_step { op[x] != 0 && !CALM ->
		printf("statement %d is rolled back, or its manager is killed\n", op[x]);
		n = X(x);
		b = KIND(x);
		op[x] = 0;
		sort_ops();
		if
		:: b >= END_LOST && b <= END_EXPIRED -> w_a = n; forget(w_a)
		:: else
		fi; DONE }
	:: d_step { KIND(x) == WORKER_LOSE ->
		w_i = X(x); b = Y(x);
		op[x] = 0;
		sort_ops();
		n = b;
		worker_lose(w_i, n); DONE }
	:: d_step { KIND(x) >= END_LOST && KIND(x) <= END_EXPIRED ->
		free_a = X(x); w_i = KIND(x); n = Z(x);
		op[x] = 0;
		sort_ops();
		end_attempts(free_a, n, w_i);
		forget_answers(); DONE }
#ifdef WITHOUT_TWO_COMMITS
	/* It uses what it read when it began. Only the row that it updates is checked again. */
	:: d_step { KIND(x) == LOSE_AND_END ->
		w_i = X(x); n = Y(x); free_a = Z(x);
		op[x] = 0;
		sort_ops();
		worker_lose(w_i, n);
		if
		:: att_worker[free_a] != 0 -> end_attempts(free_a, att_task[free_a], END_LOST)
		:: else
		fi;
		forget_answers(); DONE }
#endif
	od
}

/* --- an attempt: at the worker, its reports, and the statements that find it -------------------------------------- */

#ifdef WITHOUT_DROPPED_ANSWERS
#define ACCEPTED(a) (answered[a] && !HELD(a) && phase[att_worker[a]] == PHASE_SERVING)
#else
#define ACCEPTED(a) (answered[a] && place[a] == PLACE_NONE && phase[att_worker[a]] == PHASE_SERVING && \
	(waiting[att_worker[a]] & BIT(att_fetch[a])))
#endif
/* The watchdog checks the lease when it receives SPAWN_START. In variants without that check, the worker checks the
 * lease before it sends SPAWN_START. */
#define LEASED(i) (acked[i] >= over[i])
#if defined(WITHOUT_WATCHDOG) || defined(WITHOUT_WATCHDOG_START)
#define WORKER_STARTS(i) LEASED(i)
#define WATCHDOG_STARTS(i) 1
#else
#define WORKER_STARTS(i) 1
#define WATCHDOG_STARTS(i) LEASED(i)
#endif
#ifdef EXPIRY
#define STALE(a) expired[a]
#else
#define STALE(a) 0
#endif

inline accept_answer(a)
{
	printf("FetchResponse to Fetch %d of incarnation %d: attempt %d is ready\n", att_fetch[a], att_worker[a], a);
	waiting[att_worker[a]] = waiting[att_worker[a]] & ~BIT(att_fetch[a]);
	place[a] = PLACE_READY
}

/* Handles a report: complete or end_attempts, or late_results if these match no row. */
inline report_handled(a, t)
{
	ack_sent[a] = 1;
	if
	:: HAS(t, a) ->
		if
		:: reported[a] == PLACE_UNACKED_C -> printf("complete: attempt %d\n", a)
		:: else -> printf("end_attempts: attempt %d, as reported\n", a)
		fi;
		PROMISE(status[t] == a, stale_finish_changes_nothing);
		if
		:: reported[a] == PLACE_UNACKED_C -> attempt_over(a, ENDED)
		:: else -> give_back(a)
		fi
	:: else -> printf("late_results: attempt %d\n", a)
	fi;
#ifdef RENUMBERED
	/* The attempt is over. Whether its worker already has the ack makes no difference. */
	if
	:: IS_UNACKED(a) -> place[a] = PLACE_GONE; forget_answers()
	:: else
	fi
#else
	skip
#endif
}

proctype attempt(byte a)
{
end:	do
	/* the worker */
	:: d_step { att_worker[a] != 0 && ACCEPTED(a) ->
		accept_answer(a);
		forget_answers(); DONE }
#if TASKS > 1
	/* the same, with another attempt in the same answer */
	:: d_step { att_worker[a] != 0 && ACCEPTED(a) ->
		for (c : 1 .. ATTEMPTS) {
			if
			:: c != a && att_worker[c] == att_worker[a] && att_fetch[c] == att_fetch[a] && answered[c] &&
			   place[c] == PLACE_NONE && ACCEPTED(a) -> place[c] = PLACE_READY
			:: else
			fi
		}
		accept_answer(a);
		forget_answers(); DONE }
#endif
#ifdef WITHOUT_INCARNATION
	:: d_step { att_worker[a] == 1 && answered[a] && place[a] == PLACE_NONE && phase[1] == PHASE_OVER &&
		phase[2] == PHASE_SERVING && (waiting[2] & BIT(att_fetch[a])) ->
		printf("FetchResponse to Fetch %d of incarnation 1, taken in by incarnation 2: attempt %d is ready\n",
		    att_fetch[a], a);
		waiting[2] = waiting[2] & ~BIT(att_fetch[a]);
		att_by[a] = 2;
		place[a] = PLACE_READY;
		forget_answers(); DONE }
#endif
	:: d_step { place[a] == PLACE_READY && phase[BY(a)] == PHASE_SERVING && !STALE(a) && WORKER_STARTS(BY(a)) ->
		printf("SPAWN_START of attempt %d\n", a);
		place[a] = PLACE_STARTING; DONE }
	/* Drained, waited too long, or the lease has ended. */
	:: d_step { place[a] == PLACE_READY ->
		printf("attempt %d goes back, not begun\n", a);
		place[a] = PLACE_UNACKED_F; DONE }
	/* the supervisor and its watchdog */
	:: d_step { place[a] == PLACE_STARTING && WATCHDOG_STARTS(BY(a)) ->
		printf("the handler of attempt %d starts\n", a);
		PROMISE(!RUNNING(att_task[a]), no_two_holders);
		PROMISE(status[att_task[a]] == a, no_handler_starts_without_the_lock);
		place[a] = PLACE_RUNNING; DONE }
	:: d_step { place[a] == PLACE_STARTING && !LEASED(BY(a)) ->
		printf("the watchdog does not start attempt %d: the lease is over\n", a);
		place[a] = PLACE_UNACKED_F; DONE }
	:: d_step { place[a] == PLACE_RUNNING && ALIVE(BY(a)) ->
		printf("the handler of attempt %d ends well\n", a);
		place[a] = PLACE_UNACKED_C; DONE }
	:: d_step { place[a] == PLACE_RUNNING && ALIVE(BY(a)) ->
		printf("the handler of attempt %d ends badly, or is stopped\n", a);
		place[a] = PLACE_UNACKED_F; DONE }
	:: d_step { place[a] == PLACE_RUNNING && !ALIVE(BY(a)) ->
		printf("the handler of attempt %d is killed by the watchdog\n", a);
		place[a] = PLACE_GONE;
		forget_answers(); DONE }
	/* its result */
	:: d_step { IS_UNACKED(a) && reported[a] == 0 && ALIVE(BY(a)) ->
		printf("Report of attempt %d\n", a);
		reported[a] = place[a]; DONE }
#ifdef WITHOUT_TOKEN
	:: d_step { reported[a] != 0 && (!ack_sent[a] || EXECUTING(att_task[a])) ->
#else
	:: d_step { reported[a] != 0 && !ack_sent[a] ->
#endif
		report_handled(a, att_task[a]); DONE }
#ifndef RENUMBERED
	:: d_step { IS_UNACKED(a) && ack_sent[a] ->
		printf("ReportResponse: the ack of attempt %d\n", a);
		place[a] = PLACE_GONE;
		forget_answers(); DONE }
#endif
	:: d_step { reported[a] != 0 && ack_sent[a] && !HELD(a) && status[att_task[a]] != a ->
		printf("the last copy of the Report of attempt %d is lost\n", a);
		reported[a] = 0;
		forget_answers(); DONE }
	/* the managers */
#ifndef ALWAYS_ANSWERED
	:: d_step { att_worker[a] != 0 && status[att_task[a]] == a && !answered[a] && place[a] == PLACE_NONE &&
#ifndef ANSWERS_STAY
		(waiting[att_worker[a]] & BIT(att_fetch[a])) &&
#endif
		phase[att_worker[a]] == PHASE_SERVING ->
		printf("redeliver: attempt %d; FetchResponse to Fetch %d of incarnation %d\n", a, att_fetch[a], att_worker[a]);
		answered[a] = 1; DONE }
#endif
	:: d_step { LOST_FIND(a) && FREE_OP && !ENDING(a) ->
		printf("lost_find: attempt %d\n", a);
#ifdef WITHOUT_ENDLESS_SWEEP
		swept[att_worker[a]] = 1;
#endif
		add_op(OP(END_LOST, a, 0, att_task[a])); DONE }
	:: d_step { REQUEUE_FIND(a) && NEWS(att_worker[a]) && FREE_OP && !ENDING(a) ->
		printf("requeue_find: attempt %d, by heartbeat %d of incarnation %d\n", a, GOT(att_worker[a]), att_worker[a]);
#ifdef LIVE
		news[att_worker[a]] = 0;
#endif
		add_op(OP(END_REQUEUED, a, 0, att_task[a])); DONE }
#ifdef WITHOUT_TWO_COMMITS
	:: d_step { att_worker[a] != 0 && status[att_task[a]] == a && WORKERS_WATCH(att_worker[a]) && FREE_OP ->
		printf("workers_watch: incarnation %d has stood still at %d for a lease; lost_find, too: attempt %d\n",
		    att_worker[a], hb_seq[att_worker[a]], a);
		add_op(OP(LOSE_AND_END, att_worker[a], hb_seq[att_worker[a]], a)); DONE }
#endif
#ifdef EXPIRY
	/* The timeout is a lease shorter than the expiry. So the handler has ended by then, in one way or another. */
	:: d_step { att_worker[a] != 0 && status[att_task[a]] == a && !expired[a] && place[a] != PLACE_STARTING &&
		place[a] != PLACE_RUNNING ->
		printf("attempt %d expires\n", a);
		expired[a] = 1; DONE }
	:: d_step { att_worker[a] != 0 && status[att_task[a]] == a && IS_EXPIRED(a) && FREE_OP && !ENDING(a) ->
		printf("expired_find: attempt %d\n", a);
		add_op(OP(END_EXPIRED, a, 0, att_task[a])); DONE }
#endif
	od
}

/* --- submitters, operators, and the proof that a task can leave executing ----------------------------------------- */

#ifdef RENUMBERED
/* Another task replaces an ended one to which no attempt refers any more. */
#define IS_AT(a, t) (att_task[a] == t)
proctype submitter(byte t)
{
end:	do
	:: d_step { status[t] == ENDED && !SOME_ATTEMPT(IS_AT, t) ->
		printf("submit: another task %d\n", t);
#ifdef CANCEL
		cancel_requested[t] = 0;
#endif
		status[t] = WAITS; DONE }
	od
}
#endif

#ifdef CANCEL
inline cancel_mark(t)
{
	printf("cancel_mark: task %d\n", t);
	cancel_requested[t] = 1;
	drop_claims(t)
}

proctype canceller(byte t)
{
end:	do
	:: d_step { !cancel_requested[t] && status[t] != ENDED ->
		cancel_mark(t);
		if
		:: status[t] == WAITS -> status[t] = ENDED /* cancel_waiting, in the same transaction */
		:: else
		fi; DONE }
	od
}
#endif

#ifdef WITHOUT_WATCHED_EXPIRY
proctype database_clock()
{
end:	do
	:: d_step { !clock_jumped -> printf("the database's clock jumps ahead\n"); clock_jumped = 1; DONE }
	:: d_step { clock_jumped -> printf("the database's clock jumps back\n"); clock_jumped = 0; DONE }
	od
}
#endif

#ifdef LIVE
/* No more faults: no process is killed, no statement is rolled back, no outcome stays unknown. The network continues to
 * duplicate and delay messages. Then no run, fair or not, may return infinitely often to a task that executes under a
 * worker that is gone. */
proctype faults()
{
end:	do
	:: d_step { !calm -> printf("no more faults from here on\n"); calm = 1; DONE }
	od
}
#define executing_under_gone (EXECUTING(1) && GONE(att_worker[status[1]]))
ltl leaves { !<>(calm && []<>executing_under_gone) }
#else
/* In every state in which a task executes under a worker that is gone, the following steps of the protocol are possible
 * in this order and end the attempt: its leases end; a manager's watch and worker_lose; lost_find and end_attempts. The
 * run then starts from the beginning, so that this adds no states. */
inline start_again()
{
	for (n : 1 .. WORKERS) {
		lost[n] = 0; hb_seq[n] = 0; phase[n] = PHASE_NONE; highest[n] = 0; waiting[n] = 0;
		sent[n] = 0; acked[n] = 0; over[n] = 0;
		clear_beats(n, BEATS + 1);
#ifdef WITHOUT_ENDLESS_SWEEP
		swept[n] = 0;
#endif
#ifdef WITHOUT_SEQ
		got[n] = 0;
#endif
	}
	for (n : 1 .. ATTEMPTS) {
		att_worker[n] = 0; att_fetch[n] = 0; att_task[n] = 0; place[n] = PLACE_NONE;
		answered[n] = 0; reported[n] = 0; ack_sent[n] = 0;
#ifdef EXPIRY
		expired[n] = 0;
#endif
#ifdef WITHOUT_INCARNATION
		att_by[n] = 0;
#endif
	}
	for (n : 1 .. TASKS) {
		status[n] = WAITS;
#ifdef CANCEL
		cancel_requested[n] = 0;
#endif
	}
	for (n : 0 .. OPS - 1) {
		op[n] = 0
	}
#ifdef WITHOUT_WATCHED_EXPIRY
	clock_jumped = 0;
#endif
	phase[1] = PHASE_SERVING
}

proctype witness(byte t)
{
end:	do
	:: d_step { EXECUTING(t) && GONE(att_worker[status[t]]) ->
		printf("task %d can leave executing now:\n", t);
		free_a = status[t];
		w_i = att_worker[free_a];
		do
		:: over[w_i] <= sent[w_i] && !lost[w_i] -> lease_ends(w_i)
		:: else -> break
		od;
		if
		:: WORKERS_WATCH(w_i) -> n = hb_seq[w_i]; worker_lose(w_i, n)
		:: else
		fi;
		if
		:: LOST_FIND(free_a) -> end_attempts(free_a, t, END_LOST)
		:: else
		fi;
		PROMISE(status[t] != free_a, task_whose_worker_is_gone_can_leave_executing);
		start_again(); DONE }
	od
}
#endif

init
{
	d_step {
		phase[1] = PHASE_SERVING
	}
	atomic {
		for (n : 1 .. WORKERS) {
			run worker(n);
			run watch(n);
			run fetch(n, 1);
			if
			:: FETCHES > 1 && n == 1 || OTHERS_FETCHES > 1 && n > 1 -> run fetch(n, 2)
			:: else
			fi
		}
		for (n : 1 .. ATTEMPTS) {
			run attempt(n)
		}
		for (n : 1 .. OPS) {
			run statement(n - 1)
		}
		for (n : 1 .. TASKS) {
#ifdef RENUMBERED
			run submitter(n);
#endif
#ifdef CANCEL
			run canceller(n);
#endif
#ifndef LIVE
			run witness(n);
#endif
			skip
		}
#ifdef WITHOUT_WATCHED_EXPIRY
		run database_clock();
#endif
#ifdef LIVE
		run faults();
#endif
		skip
	}
}
