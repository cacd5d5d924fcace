/*
 * The limit of a queue (invariant I9): no more of its tasks execute than `maximum`, over all managers and sessions, and
 * `taken` is their number, whatever is in flight when a limit is set for the first time, changed or removed.
 *
 * As in reeve.pml a step is one commit or one moment of a statement, in any order; a statement may be rolled back instead.
 * READ COMMITTED: a statement reads the table `limits` as it was when it began (`seen`), and checks a row again after it
 * has locked it. What it writes is seen by others with its commit. Each claim and each end takes the lock of writers on the
 * table `assignments` before that, since it writes there; `queue_limit` takes one that excludes writers.
 */
#ifndef TASKS
#define TASKS 2
#endif
#ifndef LIMITS
#define LIMITS 2  /* how often a limit is set for the first time */
#endif
#ifndef MAXIMUM
#define MAXIMUM 1 /* the highest limit */
#endif

#ifdef SHORTEST
#define SCRATCH
#else
#define SCRATCH hidden
#endif
/* As in reeve.pml: a run prints the name, a variable that is 0, when the condition is false. */
#define PROMISE(condition, name) assert((condition) || name)
SCRATCH byte no_more_execute_than_the_limit_allows, the_permits_taken_are_those_of_what_executes;

#define ME (_pid + 1)

#define WAITS 0
#define EXECUTES 1
#define ENDED 2

byte status[TASKS], permit[TASKS]; /* permit: the number of a limit; 0: none */
byte locked[TASKS];                /* by which process; 0: none */
byte limit, limits_so_far;         /* the number of the limit; 0: none */
byte maximum, taken, limit_locked;
byte writers;                      /* of `assignments` */
bool excluded;                     /* … they are */

inline count_executing()
{
	executing = 0;
	for (n : 0 .. TASKS - 1) {
		if
		:: status[n] == EXECUTES -> executing++
		:: else
		fi
	}
	n = 0
}

/* After each commit. */
inline check()
{
	count_executing();
	PROMISE(!limit || taken == executing, the_permits_taken_are_those_of_what_executes);
	executing = 0
}

inline unlock()
{
	d_step {
		if
		:: locked[t] == ME -> locked[t] = 0
		:: else
		fi;
		if
		:: limit_locked == ME -> limit_locked = 0
		:: else
		fi;
		writers--;
		t = 0;
		seen = 0
	}
}

inline pick()
{
	if
	:: t = 0
	:: t = TASKS - 1
	fi
}

inline begin_writing()
{
#ifdef WITHOUT_READ_COMMITTED
	seen = limit; /* the snapshot is that of a transaction that began before */
	atomic { !excluded -> writers++; pick() }
#else
	atomic { !excluded -> writers++; seen = limit; pick() }
#endif
}

inline commit_claim(with)
{
	d_step {
		status[t] = EXECUTES;
		permit[t] = with;
		taken = (with -> taken + 1 : taken);
		printf("claim: task %d with permit %d\n", t, with);
		check();
		count_executing();
		PROMISE(!limit || executing <= maximum, no_more_execute_than_the_limit_allows);
		executing = 0
	}
}

/* claim.sql, as a manager runs it that knows of no limit, claim_limited.sql, and reeve.fetch. */
active [2] proctype claim()
{
	byte t, n, seen, executing;
	bool limited;

	do
	:: begin_writing();
		if
		:: limited = false; /* claim.sql waits for the row */
			atomic { !locked[t] -> locked[t] = ME }
		:: limited = true;
			atomic {
				if
				:: !locked[t] -> locked[t] = ME
				:: else
				fi
			}
		fi;
		if
		:: locked[t] != ME || status[t] != WAITS
#ifdef WITHOUT_REFUSAL
		:: locked[t] == ME && status[t] == WAITS && !limited -> commit_claim(0)
#else
		:: locked[t] == ME && status[t] == WAITS && !limited && seen /* refused */
		:: locked[t] == ME && status[t] == WAITS && !limited && !seen -> commit_claim(0)
#endif
		:: locked[t] == ME && status[t] == WAITS && limited && !seen -> commit_claim(0)
		:: locked[t] == ME && status[t] == WAITS && limited && seen ->
			atomic { !limit_locked -> limit_locked = ME };
			if
#ifdef WITHOUT_ROOM
			:: limit == seen -> commit_claim(seen)
#else
			:: limit == seen && taken < maximum -> commit_claim(seen)
			:: limit == seen && taken >= maximum
#endif
			:: limit != seen /* it was removed */
			:: true /* rolled back */
			fi
		fi;
		limited = false;
		unlock()
	od
}

/* complete*.sql and end_attempts.sql, of a report, an expiry, a lost worker: the task ends, or waits again. */
active proctype end()
{
	byte t, n, seen, executing;

	do
	:: begin_writing();
		atomic { !locked[t] -> locked[t] = ME };
		if
		:: status[t] != EXECUTES
		:: status[t] == EXECUTES ->
			if
			:: permit[t] -> atomic { !limit_locked -> limit_locked = ME }
			:: else
			fi;
			if
			:: true -> d_step {
#ifndef WITHOUT_RETURN
				taken = (permit[t] && permit[t] == limit -> taken - 1 : taken);
#endif
				permit[t] = 0;
				status[t] = WAITS;
				printf("end: task %d\n", t);
				check() }
			:: true /* rolled back */
			fi
		fi;
		unlock()
	od
}

/* queue_limit of a queue's setting: the queue's row lets one run at a time. */
active proctype set()
{
	byte n, executing, to;
	bool runs[TASKS];

	do
	:: if
		:: to = 0
		:: to = MAXIMUM
		fi;
		if
		:: limit ->
			atomic { !limit_locked -> maximum = to; printf("the limit is %d\n", to) }
		:: !limit && limits_so_far < LIMITS ->
#ifndef WITHOUT_EXCLUSION
			atomic { !writers -> excluded = true };
#endif
			d_step {
				executing = 0;
				for (n : 0 .. TASKS - 1) {
					runs[n] = status[n] == EXECUTES;
				}
				n = 0
			}
			for (n : 0 .. TASKS - 1) {
				if
				:: runs[n] -> atomic { !locked[n] -> runs[n] = status[n] == EXECUTES; locked[n] = (runs[n] -> ME : 0) }
				:: else
				fi
			}
			skip; /* the end of a loop may not lead into a d_step */
			d_step {
				limits_so_far++;
				limit = limits_so_far;
				maximum = to;
				taken = 0;
				for (n : 0 .. TASKS - 1) {
					if
					:: runs[n] ->
						permit[n] = limit;
						taken++;
						locked[n] = 0;
						runs[n] = false
					:: else
					fi
				}
				n = 0;
				excluded = false;
				printf("limit %d is set to %d, %d taken\n", limit, to, taken);
				check()
			}
		:: limit ->
			atomic { !limit_locked -> limit = 0; maximum = 0; taken = 0; printf("the limit is removed\n") }
		:: !limit && limits_so_far == LIMITS
		fi;
		to = 0
	od
}
