"""Faults that others cause: clients that request too much, sessions that hold locks, roles that send notifications,
clocks that are set, and managers that stop in the middle of a transaction. Each kind is a generator, as in fault_kinds.py.

Most of them are `calm`: they do not affect workers, so no worker may be lost. A kind that may have no effect checks
whether it had one. If not, it sets the reason in `missed` and is drawn again.
"""

import random
import signal
import statistics
import subprocess

from fault import Fault
from fixture import MAX_CALLS, MAX_CONNECTIONS
from watch import now_us

HOUR_S = 3600
# kinds of fault_flood.c, with their counts
FLOODS = {
	"waits": MAX_CALLS + 500,
	"fetches": 200,
	"lost": 300,
	"reads": 200,
	"gets": 800,
	"connections": MAX_CONNECTIONS + 200,
	"garbage": 2000,
}
PARKED = 2000
TYPES = 400
TYPES_ENOUGH = TYPES // 3  # the minimum number of types with submitted tasks
TYPES_US = 50_000  # how much longer than twice the others' median time tasks of new types may wait at the median
COLD_US = 1_000_000  # how much longer than the longest of the others each may wait
QUIET_US, PROBES = 1500000, 10  # minimum duration and number of probes when measuring probes without a fault
HOLD_TRIES = 10


def one_of(run, rng):
	return rng.choice(sorted(run.fixture.managers.values(), key=lambda m: m.name))


def worked(run, seconds):
	"""Waits until the run has had that much time of its own."""
	since = now_us()
	while run.took_s(since) < seconds:
		yield 0.05


def finish(run, process, seconds, what):
	"""Waits for the end of a program, which must exit in time and with code 0."""
	until = now_us() + int(seconds * 1e6)
	while process.alive:
		yield 0.05
		if now_us() > until:
			run.complain(f"{what} has not ended within {seconds} s")
			process.kill()
			return
	if process.code != 0:
		run.complain(f"{what} ended with {process.code}: {run.fixture.log_of(process.name).strip()[-300:]}")


def held(run, statement, seconds, user="postgres", count="select 1", tries=HOLD_TRIES):
	"""Starts a session that holds something for `seconds` (Postgres.hold). Returns its Holder, or None after `tries`
	sessions that held nothing."""
	for _ in range(tries):
		holder = run.fixture.postgres.hold(statement, seconds, user, count)
		while holder.holds() is None:
			yield 0.05
		if holder.holds() > 0:
			return holder
		yield 0.3
	return None


def let_go(fault, holder):
	"""Waits until the session has held it for the full time."""
	while holder.alive:
		yield 0.05
	if holder.code != 0:  # another fault ended it
		fault.missed = f"the session that held something ended with {holder.code}"


def cost_of(run, steps):
	"""Runs the steps with nothing in their way. Returns their result, and the longest time that a probe took, in µs.

	docs/reliability.md promises how long locks delay others, a quarter of the lease and at least 1 s. It does not
	promise how fast this machine is, with sanitizers in all programs, two cores, and perhaps another test on them. So
	the same steps run first without the lock, and the time that a probe, or a start, then takes is added to the
	promised time. If a probe alone takes longer than the promised time, the test decides nothing on this machine
	(`too_slow`)."""
	since = now_us()
	result = yield from steps
	while now_us() < since + QUIET_US or run.watch.submitted_since(since) < PROBES:
		yield 0.05
	until = now_us()
	while run.watch.waiting(until) and now_us() < until + run.limit_s * 1e6:
		yield 0.05
	return result, max([run.watch.service_us(since, until, since), *(run.time.between(t, now_us()) for t in run.watch.waiting(until))])


def too_slow(run, fault, cost):
	if cost > run.promised_us:
		fault.missed = f"a probe took {cost / 1e6:.1f} s with nothing in its way"
	return cost > run.promised_us


def started(run, manager, limit_s=None):
	"""Starts the manager, which must listen within the limit. Returns how long it took, in s."""
	limit_s = limit_s or run.limit_s
	since = now_us()
	manager.start()
	while not manager.answers():
		yield 0.05
		if not manager.alive and manager.code == 3:  # there was no database: start it again, like a service manager
			yield 0.5
			manager.start()
		if now_us() - since > 60e6:
			break
	took = run.took_s(since)
	if took > limit_s:
		run.complain(f"manager {manager.name} listened {took:.1f} s after its start; the limit is {limit_s:.1f} s")
	return took


def restarted(run, manager, limit_s=None):
	manager.signal(signal.SIGTERM)
	until = now_us() + 20_000_000
	while manager.alive:
		yield 0.05
		if now_us() > until:
			run.complain(f"manager {manager.name} has not ended 20 s after a SIGTERM")
			manager.kill()
	return (yield from started(run, manager, limit_s))


def frozen_in_a_transaction(run, rng):
	"""Stops a manager while it holds row locks: repeatedly, under load, until PostgreSQL has such a session."""
	manager, how, seconds = one_of(run, rng), run.in_turn("frozen", ("frozen", "cut off", "host gone")), run.span(4, 8)
	name = run.next_name("z")

	def steps(fault):
		fault.calm = True
		fault.silent = None if how == "host gone" else manager  # workers leave a manager at once if its process ends
		wire = run.fixture.proxies[f"database-{manager.name}"]
		wire.tell("delay", "both", "10")
		load = run.fixture.submit_during(name, [manager], "--rate", "20", "--seed", "1", "--mix", "tiny=1", "--threads", "6", "--batches",
			"80", "--cancel", "0", "--keyed", "0", "--again", "0", "--look", "0")
		yield 1
		for _ in range(30):
			fault.begun = now_us()
			if how == "frozen":
				manager.signal(signal.SIGSTOP)
			else:
				wire.tell("drop", "both")
			yield 0.3
			if run.fixture.postgres.left_open():
				break
			manager.signal(signal.SIGCONT)
			if how != "frozen":
				wire.tell("pass")
			wire.tell("delay", "both", "10")
			yield 0.4
		else:
			fault.missed = f"manager {manager.name} was never caught in a transaction"
		if how == "host gone":
			manager.kill()
		yield seconds
		manager.signal(signal.SIGCONT)
		wire.tell("pass")
		if how == "host gone":
			yield from started(run, manager)
		load.signal(signal.SIGTERM)
		yield from finish(run, load, 40, f"the submitter {name}")

	return Fault("manager frozen in a transaction", f"{manager.name}, {how}, for {seconds:.1f} s", steps,
		{manager.name, f"database-{manager.name}"})


ROWS = {
	# Without the rows of probes, which would have to wait for the lock.
	"journal rows": "select from assignments a where closed_at is null and not exists (select from tasks t where t.id = any(a.task_ids)"
		" and t.details like 'p-%') limit 20 for update skip locked",
	"managers": "select from managers for update",
	"keys": "select from keys limit 100 for update skip locked",
	"routes": "select from routes for update skip locked",
	"schedules": "select from schedules for update skip locked",
	"executing tasks": "select from tasks where status = 'executing' and details not like 'p-%' limit 20 for update skip locked",
	"batches": "select from batches where phase <> 'ended' for update skip locked",
	"queues": "select from queues where name in ('implicit', 'gate') for update",
	"callbacks": "select from callbacks where state = 'waiting' for update skip locked",
}


def rows_locked(run, rng):
	"""A forgotten session has changed rows and holds their locks."""
	what, seconds = run.in_turn("rows", sorted(ROWS)), run.span(5, 20)

	def steps(fault):
		fault.calm = True
		_, cost = yield from cost_of(run, ())
		if too_slow(run, fault, cost):
			return
		fault.limit_us = run.promised_us + cost
		holder = yield from held(run, "", seconds, count=f"with rows as ({ROWS[what]}) select count(*) from rows")
		if not holder:
			fault.missed = f"there were no {what} to lock"
			return
		fault.begun = now_us()
		yield from let_go(fault, holder)
		run.say(f"{holder.holds()} {what} were locked")

	return Fault("rows locked", f"{what}, for {seconds:.1f} s", steps, set())


def history_read(run, rng):
	"""A dump reads the history while a manager starts that has to create a partition of it."""
	manager, seconds = one_of(run, rng), run.span(5, 12)
	waited = "cannot make partitions of the history"

	def steps(fault):
		fault.calm = True
		postgres = run.fixture.postgres
		own, cost = yield from cost_of(run, restarted(run, manager))
		if too_slow(run, fault, cost):
			return
		fault.limit_us = run.promised_us + cost
		rows = postgres.sql("select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = "
			"'task_history'::regclass and c.relname <> 'task_history_default' and c.reltuples <= 0 order by 1 desc limit 1")
		remove = (yield from held(run, f"drop table {rows[0][0]}; commit; begin", 0)) if rows else None
		holder = (yield from held(run, "lock table task_history in access share mode", seconds)) if remove else None
		if not holder:
			fault.missed = "no partition could be dropped, or not be kept from being made again"
			return
		before = run.fixture.log_of(manager.name).count(waited)
		fault.begun = now_us()
		yield from restarted(run, manager, own + run.promised_us / 1e6)
		if not holder.alive or run.fixture.log_of(manager.name).count(waited) == before:
			fault.missed = f"manager {manager.name} did not have to make a partition while the history was read"
		yield from let_go(fault, holder)

	return Fault("history read", f"for {seconds:.1f} s, while manager {manager.name} starts", steps, {manager.name})


def joined(run, name, manager):
	"""Starts a new worker of that name and, after its registration, restarts a manager. (A restart during the
	registration could leave a lost incarnation.) Returns the worker, and how long the start of each took, in s."""
	since = now_us()
	worker = run.fixture.work_during(name, [f"idle-{name}"])
	registered = f"select 1 from workers where name = '{worker.life}' and not lost"
	while not run.fixture.postgres.sql(registered) and now_us() - since < 60e6:
		yield 0.05
	took = run.took_s(since)
	return worker, took, (yield from restarted(run, manager))


def advisory_locks(run, rng):
	"""A role without rights holds every advisory lock that it can name while a manager and a new worker start."""
	manager, seconds = one_of(run, rng), run.span(5, 12)
	first, second = run.next_name("a"), run.next_name("a")

	def steps(fault):
		fault.calm = True
		postgres = run.fixture.postgres
		postgres.make_unprivileged()
		(worker, worker_own, manager_own), cost = yield from cost_of(run, joined(run, first, manager))
		worker.signal(signal.SIGTERM)
		yield from finish(run, worker, 30, f"worker {worker.life}")
		if too_slow(run, fault, cost):
			return
		fault.limit_us = run.promised_us + cost
		names = ("task_history partitions", "schema_migrations", "archive", "metrics")
		locks = [f"pg_advisory_lock(hashtext('reeve.{name}'))" for name in names]
		locks += [f"pg_advisory_lock(hashtextextended('reeve.queue {queue}', 0))" for queue in range(20)]
		locks.append(f"pg_advisory_lock(hashtext('reeve.worker'), hashtext('{second}.1'))")
		holder = yield from held(run, f"do $$ begin perform {', '.join(locks)}; end $$", seconds, "unprivileged",
			f"select count(*) / {len(locks)} from pg_locks where locktype = 'advisory' and granted and pid = pg_backend_pid()")
		if not holder:
			fault.missed = "another session has one of the advisory locks"
			return
		fault.begun = now_us()
		worker, *took = yield from joined(run, second, manager)
		for what, own, now in zip((f"worker {worker.life}", f"manager {manager.name}"), (worker_own, manager_own), took):
			if now > own + run.promised_us / 1e6:
				run.complain(f"{what} was there {now:.1f} s after its start, and {own:.1f} s without locks")
		if not holder.alive:
			fault.missed = "the locks were gone before worker and manager were there"
		yield from let_go(fault, holder)
		worker.signal(signal.SIGTERM)
		yield from finish(run, worker, 30, f"worker {worker.life}")

	return Fault("advisory locks", f"for {seconds:.1f} s, while manager {manager.name} and a worker start", steps,
		{manager.name, "advisory locks"})


def notify_noise(run, rng):
	"""A role without rights sends notifications like those between managers, and nonsense."""
	count, seed = int(run.span(100, 600)), rng.randrange(1 << 30)

	def lines(newest):
		draw = random.Random(seed)
		for _ in range(count):
			verb = draw.choice(("stop", "drain", "pause", "concurrency", "cancel", "none"))
			yield "notify reeve_notify, '{}';".format(draw.choice((
				f"command 0 {draw.randint(1, newest + 1)} {verb} {draw.choice((0, 1, 3))}",
				f"command 999 {draw.randint(1, newest + 1)} {verb} 0",
				"0 0 0 0", f"0 {draw.randint(0, 50)} {draw.randint(-5, 50)} {draw.randint(0, 1 << 50)}",
				f"{draw.randint(0, 99)} {draw.randint(0, 50)} 10 0 1", "queues", "schedules", "inbox", "routes", "",
				f"{draw.getrandbits(256):x}", "x" * draw.randint(1, 7000))))
			yield "select pg_sleep(0.01);"

	def steps(fault):
		fault.calm = True
		run.fixture.postgres.make_unprivileged()
		rows = run.fixture.postgres.sql("select coalesce(max(id), 0) from workers")
		session = run.fixture.postgres.type_in(lines(int(rows[0][0]) if rows else 10), "unprivileged")
		while session.poll() is None:
			yield 0.05
		if session.returncode != 0:
			fault.missed = f"the session that sent them ended with {session.returncode}"

	return Fault("notify noise", f"{count} notifications", steps, {worker.name for worker in run.fixture.workers.values()})


def compare_waits(run, fault, many, known):
	medians, longest = [statistics.median(waits) for waits in (many, known)], [max(many), max(known)]
	run.say("tasks of new types waited for {:.0f} ms at the median, others for {:.0f} ms; the longest {:.0f} and {:.0f} ms".format(
		*(us / 1000 for us in medians + longest)))
	if fault.bounded and (medians[0] > 2 * medians[1] + TYPES_US or longest[0] > longest[1] + COLD_US):
		run.complain("tasks of new types waited for longer than others")


def types_many(run, rng):
	"""Submits tasks of many new types while the database is slow. They must start like tasks of one type that the same worker
	gets at the same time: at the median, and the longest within the time that docs/reliability.md promises for a cold start.
	All are submitted to one manager: the worker's own starts them sooner than another, which has to send a notification."""
	ms, seconds, cold = rng.randint(1, 3), run.span(5, 10), rng.random() < 0.4
	manager, entry = one_of(run, rng), one_of(run, rng)
	many, known = run.next_name("m"), run.next_name("o")

	def steps(fault):
		fault.calm = True
		types = [f"many-{many}-{n}" for n in range(TYPES)]
		worker = run.fixture.work_during(f"w{many}", [*types, known])
		yield 1
		run.watch.probes.update((many, known))
		wires = [wire for wire in run.fixture.proxies.values() if wire.speaks == "postgres"]
		for wire in wires:
			wire.tell("delay", "both", str(ms))
		fault.begun = now_us()
		loads = [run.fixture.submit_during(name, [entry], "--rate", rate, "--seed", "1", "--mix", "tiny=1", "--threads",
			"4", "--types", ",".join(f"{kind}=1" for kind in kinds), "--priority", "10", "--cancel", "0", "--keyed", "0", "--again", "0",
			"--look", "0") for name, rate, kinds in ((many, "60", types), (known, "20", [known]))]
		yield from worked(run, seconds / 2)
		if cold:
			yield from restarted(run, manager)
		yield from worked(run, seconds / 2)
		for load in loads:
			load.signal(signal.SIGTERM)
		submitted = now_us()
		for load in loads:
			yield from finish(run, load, 40, f"the submitter {load.name}")
		for wire in wires:
			wire.tell("pass")
		until = now_us() + 60_000_000
		while run.watch.waiting(submitted) and now_us() < until:
			yield 0.2
		rows = run.fixture.postgres.sql(f"select count(distinct type) from task_history where type like 'many-{many}-%'")
		if not rows or int(rows[0][0]) < TYPES_ENOUGH:
			fault.missed = f"there were tasks of {rows[0][0] if rows else 'no'} types"
		else:
			compare_waits(run, fault, run.watch.waits_us(many), run.watch.waits_us(known))
		worker.signal(signal.SIGTERM)
		yield from finish(run, worker, 30, f"worker {worker.life}")

	return Fault("many types", f"{TYPES} of them, the database {2 * ms} ms away, for {seconds:.1f} s"
		f"{f', manager {manager.name} restarted' if cold else ''}", steps, {*run.fixture.managers,
		*(name for name in run.fixture.proxies if name.startswith("database-"))})


def check_now(run, manager):
	"""Runs `reeve check` at that manager, which must answer within the limit."""
	since = now_us()
	check = subprocess.Popen([f"{run.fixture.bin}/reeve", "check", "--manager", manager.url, "--failed-waiting", "1000000"],
		stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
	while check.poll() is None:
		yield 0.05
	took = run.took_s(since)
	if check.returncode != 0 or took > run.limit_s:
		run.complain(f"`reeve check` ended with {check.returncode} after {took:.1f} s: {check.stdout.read().strip()[:200]}")


def submit_now(run, manager, name):
	"""Submits over a new connection. The manager must acknowledge within the limit."""
	since = now_us()
	submitter = run.fixture.submit_during(name, [manager], "--count", "1", "--mix", "tiny=1", "--types", "fault-function=1", "--threads",
		"1", "--cancel", "0", "--keyed", "0", "--again", "0", "--look", "0", "--patience", "20000")
	yield from finish(run, submitter, 60, f"a new submitter, {name},")
	took = run.took_s(since)
	if took > run.limit_s:
		run.complain(f"a submit over a new connection to manager {manager.name} took {took:.1f} s")


def outlasted(run, fault, manager, flood, seconds, what):
	"""Submits and checks over new connections while the flood lasts. Then waits for its end: it must succeed within
	`seconds`, unless there is another fault as well."""
	while flood.alive and "begins" not in run.fixture.log_of(flood.name):
		yield 0.05
	fault.begun = now_us()
	yield 1.5
	yield from submit_now(run, manager, run.next_name("n"))
	yield from check_now(run, manager)
	if fault.bounded:
		yield from finish(run, flood, seconds, what)
	while flood.alive:
		yield 0.05
	if flood.code != 0:
		fault.missed = f"{what} ended with {flood.code}"


def flooded(run, rng):
	"""One client floods a manager."""
	manager, kind, seconds = one_of(run, rng), run.in_turn("floods", sorted(FLOODS)), int(run.span(5, 10))
	count = FLOODS[kind]
	name = run.next_name("flood")

	def steps(fault):
		fault.calm = True
		backlog = None
		if kind in ("fetches", "lost"):  # without tasks these could not keep any from others
			backlog = run.fixture.submit_during(run.next_name("y"), run.fixture.managers.values(), "--count", "3000", "--rate", "600", "--seed",
				"1", "--mix", "tiny=1", "--threads", "16", "--cancel", "0", "--keyed", "0", "--again", "0", "--look", "0")
		flood = run.fixture.flood(name, manager, kind, count, seconds)
		yield from outlasted(run, fault, manager, flood, seconds + 60, f"the flood of {kind}")
		if backlog:
			yield from finish(run, backlog, 60, f"the submitter {backlog.name}")
		run.say(run.fixture.log_of(name).strip().replace("begins\n", ""))

	return Fault(f"flooded with {kind}", f"{count} of them at manager {manager.name}, for {seconds} s", steps, {manager.name})


def fetches_parked(run, rng):
	"""Manual workers park many Fetches, as they may."""
	manager, seconds = one_of(run, rng), int(run.span(5, 10))
	name = run.next_name("flood")

	def steps(fault):
		fault.calm = True
		flood = run.fixture.flood(name, manager, "parked", PARKED, seconds)
		yield from outlasted(run, fault, manager, flood, seconds + 120, "the flood of parked Fetches")
		run.say(run.fixture.log_of(name).strip().replace("begins\n", ""))

	return Fault("Fetches parked", f"{PARKED} of them at manager {manager.name}, for {seconds} s", steps, {manager.name})


def clock_jumped(run, rng):
	"""The database's clock is set forward by hours, and back. One manager may have started after one of these jumps."""
	hours, seconds, rest = rng.choice((2, 2, 26)), rng.uniform(2, 5), rng.uniform(1, 3)
	fresh, old = rng.sample(sorted(run.fixture.managers), 2)
	how = rng.choice(("", "forward", "back"))

	def steps(fault):
		fault.calm = True
		managers = run.fixture.managers
		if how == "back":  # it does not see the clock ahead
			managers[fresh].kill()
			yield 0.3
		run.fixture.postgres.set_clock(hours * HOUR_S)
		fault.begun = now_us()
		yield seconds
		if how == "forward":
			yield from restarted(run, managers[fresh])
		run.fixture.postgres.set_clock(0)
		yield 0.5
		if how == "back":
			yield from started(run, managers[fresh])
			yield rest
			managers[old].kill()  # its clients go to the other one, with the time that it returned
			yield 0.5
			yield from started(run, managers[old])
		yield rest

	text = {"": "", "forward": f", manager {fresh} restarted", "back": f", manager {fresh} absent, then {old} killed"}
	return Fault("clock jumped", f"{hours} h forward for {seconds:.1f} s, and back{text[how]}", steps, {*run.fixture.managers, "postgres"})


# The kinds, with their weights in the draw.
OUTSIDE = {
	frozen_in_a_transaction: 4,
	rows_locked: 3,
	history_read: 1,
	advisory_locks: 2,
	notify_noise: 3,
	types_many: 3,
	flooded: 5,
	fetches_parked: 2,
}

# Kinds for the end of a run. Afterwards the times of ledgers and tables cannot be compared, and schedules do not fire
# until their next scheduled time.
LAST = {clock_jumped: 1}
