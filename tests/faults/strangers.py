"""What others do to a fleet: callers that ask for too much, sessions that hold locks, roles that send notifications, clocks
that are set, and managers that stop in the middle of a transaction. Each kind is a generator, as in mishaps.py.

Most of them are `calm`: the workers have done nothing, and none may be lost.
"""

import random
import signal
import subprocess

from mishap import Mishap
from stage import MAX_CALLS, MAX_CONNECTIONS
from watch import now_us

HOUR_S = 3600
# kind of fault_flood.c: (how many, what one must still be able to do meanwhile: submit over a new connection, or check)
FLOODS = {
	"waits": (MAX_CALLS + 500, "submit"),
	"fetches": (200, ""),
	"lost": (300, ""),
	"reads": (200, "check"),
	"connections": (MAX_CONNECTIONS + 200, "submit"),
	"garbage": (2000, "submit"),
}
PARKED = 2000
TYPES = 500


def one_of(run, rng):
	return rng.choice(sorted(run.stage.managers.values(), key=lambda m: m.name))


def finish(run, process, seconds, what):
	"""Waits until a program that has to end by itself has ended well."""
	until = now_us() + int(seconds * 1e6)
	while process.alive:
		yield 0.05
		if now_us() > until:
			run.complain(f"{what} has not ended within {seconds} s")
			process.kill()
			return
	if process.code != 0:
		run.complain(f"{what} ended with {process.code}: {run.stage.log_of(process.name).strip()[-300:]}")


def started(run, manager):
	"""Starts it, and it has to listen within the limit."""
	since = now_us()
	manager.start()
	while not manager.answers():
		yield 0.05
		if not manager.alive and manager.code == 3:  # the database was away just then: started again, as by a service manager
			yield 0.5
			manager.start()
		if now_us() - since > 60e6:
			break
	took = (now_us() - since) / 1e6
	if took > run.limit_s:
		run.complain(f"manager {manager.name} listened {took:.1f} s after its start")


def restarted(run, manager):
	manager.signal(signal.SIGTERM)
	until = now_us() + 20_000_000
	while manager.alive:
		yield 0.05
		if now_us() > until:
			run.complain(f"manager {manager.name} has not ended 20 s after a SIGTERM")
			manager.kill()
	yield from started(run, manager)


def frozen_in_a_transaction(run, rng):
	"""With its rows locked: it is stopped again and again under load until PostgreSQL has such a session."""
	manager, how, seconds = one_of(run, rng), rng.choice(("frozen", "cut off", "host gone")), rng.uniform(4, 8)
	name = run.next_name("z")

	def steps(mishap):
		mishap.calm = True
		wire = run.stage.proxies[f"database-{manager.name}"]
		wire.tell("delay", "both", "10")
		load = run.stage.submit_meanwhile(name, [manager], "--rate", "20", "--seed", "1", "--mix", "tiny=1", "--threads", "6", "--batches",
			"80", "--cancel", "0", "--keyed", "0", "--again", "0", "--look", "0")
		yield 1
		for _ in range(30):
			mishap.begun = now_us()
			if how == "frozen":
				manager.signal(signal.SIGSTOP)
			else:
				wire.tell("drop", "both")
			yield 0.3
			if run.stage.postgres.left_open():
				break
			manager.signal(signal.SIGCONT)
			if how != "frozen":
				wire.tell("pass")
			wire.tell("delay", "both", "10")
			yield 0.4
		else:
			run.say(f"manager {manager.name} was never caught in a transaction")
		if how == "host gone":
			manager.kill()
		yield seconds
		manager.signal(signal.SIGCONT)
		wire.tell("pass")
		if how == "host gone":
			yield from started(run, manager)
		load.signal(signal.SIGTERM)
		yield from finish(run, load, 40, f"the submitter {name}")

	return Mishap("manager frozen in a transaction", f"{manager.name}, {how}, for {seconds:.1f} s", steps,
		{manager.name, f"database-{manager.name}"})


ROWS = {
	"executing tasks": "select from tasks where status = 'executing' and details not like 'p-%' limit 20 for update skip locked",
	"batches": "select from batches where phase <> 'ended' for update skip locked",
	"queues": "select from queues where name in ('implicit', 'gate') for update",
	"callbacks": "select from callbacks where state = 'waiting' for update skip locked",
}


def rows_locked(run, rng):
	"""Somebody's session that changed rows and was forgotten."""
	what, seconds = rng.choice(sorted(ROWS)), rng.uniform(5, 20)

	def steps(mishap):
		mishap.calm = True
		holder = run.stage.postgres.hold(ROWS[what], seconds)
		while holder.poll() is None:
			yield 0.05

	return Mishap("rows locked", f"{what}, for {seconds:.1f} s", steps, set())


def history_read(run, rng):
	"""A dump reads the history while a manager starts that has to make a partition of it."""
	manager, seconds = one_of(run, rng), rng.uniform(5, 12)

	def steps(mishap):
		mishap.calm = True
		postgres = run.stage.postgres
		rows = postgres.sql("select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = "
			"'task_history'::regclass and c.relname <> 'task_history_default' and c.reltuples <= 0 order by 1 desc limit 1")
		if rows:
			remove = postgres.hold(f"drop table {rows[0][0]}; commit; begin", 0)
			while remove.poll() is None:
				yield 0.05
		mishap.begun = now_us()
		holder = postgres.hold("lock table task_history in access share mode", seconds)
		yield 0.3
		yield from restarted(run, manager)
		while holder.poll() is None:
			yield 0.05

	return Mishap("history read", f"for {seconds:.1f} s, while manager {manager.name} starts", steps, {manager.name})


def advisory_locks(run, rng):
	"""A role without rights holds every advisory lock that it can name, while a manager and a worker start."""
	manager, seconds = one_of(run, rng), rng.uniform(5, 12)
	worker = rng.choice(sorted(run.stage.workers.values(), key=lambda w: w.name))

	def steps(mishap):
		postgres = run.stage.postgres
		postgres.make_stranger()
		names = ("task_history partitions", "schema_migrations", "archive", "metrics")
		locks = [f"pg_advisory_lock(hashtext('reeve.{name}'))" for name in names]
		locks += [f"pg_advisory_lock(hashtextextended('reeve.queue {queue}', 0))" for queue in range(20)]
		locks.append(f"pg_advisory_lock(hashtext('reeve.worker'), hashtext('{worker.name}.{worker.lives + 1}'))")
		worker.wanted = False
		mishap.interrupted = run.running_at(worker)
		worker.kill()
		holder = postgres.hold(f"select {', '.join(locks)}", seconds, "stranger")
		yield 0.3
		mishap.begun = since = now_us()
		worker.start()
		yield from restarted(run, manager)
		registered = f"select 1 from workers where name = '{worker.life}' and not lost"
		while not postgres.sql(registered) and now_us() - since < 60e6:
			yield 0.05
		if now_us() - since > run.limit_s * 1e6:
			run.complain(f"worker {worker.life} and manager {manager.name} were there {(now_us() - since) / 1e6:.1f} s after their start")
		while holder.poll() is None:
			yield 0.05

	return Mishap("advisory locks", f"for {seconds:.1f} s, while manager {manager.name} and worker {worker.name} start", steps,
		{manager.name, worker.name, "advisory locks"})


def notify_noise(run, rng):
	"""A role without rights sends what managers send each other, and what they do not."""
	count, seed = rng.randint(100, 600), rng.randrange(1 << 30)

	def lines(newest):
		draw = random.Random(seed)
		for _ in range(count):
			verb = draw.choice(("stop", "drain", "pause", "concurrency", "cancel", "none"))
			yield "notify reeve_wake, '{}';".format(draw.choice((
				f"order 0 {draw.randint(1, newest + 1)} {verb} {draw.choice((0, 1, 3))}",
				f"order 999 {draw.randint(1, newest + 1)} {verb} 0",
				"0 0 0 0", f"0 {draw.randint(0, 50)} {draw.randint(-5, 50)} {draw.randint(0, 1 << 50)}",
				f"{draw.randint(0, 99)} {draw.randint(0, 50)} 10 0 1", "queues", "schedules", "arrivals", "routes", "",
				f"{draw.getrandbits(256):x}", "x" * draw.randint(1, 7000))))
			yield "select pg_sleep(0.01);"

	def steps(mishap):
		mishap.calm = True
		run.stage.postgres.make_stranger()
		rows = run.stage.postgres.sql("select coalesce(max(id), 0) from workers")
		session = run.stage.postgres.type_in(lines(int(rows[0][0]) if rows else 10), "stranger")
		while session.poll() is None:
			yield 0.05

	return Mishap("notify noise", f"{count} notifications", steps, {worker.name for worker in run.stage.workers.values()})


def types_many(run, rng):
	"""Tasks of many types that there were not before, while the database is slow."""
	ms, seconds, cold = rng.randint(1, 4), rng.uniform(5, 10), rng.random() < 0.4
	manager = one_of(run, rng)
	name = run.next_name("m")

	def steps(mishap):
		mishap.calm = True
		types = [f"many-{name}-{n}" for n in range(TYPES)]
		worker = run.stage.work_meanwhile(f"w{name}", types)
		yield 1
		run.watch.probes.add(name)
		wires = [wire for wire in run.stage.proxies.values() if wire.speaks == "postgres"]
		for wire in wires:
			wire.tell("delay", "both", str(ms))
		mishap.begun = now_us()
		load = run.stage.submit_meanwhile(name, run.stage.managers.values(), "--rate", "120", "--seed", "1", "--mix", "tiny=1", "--threads",
			"8", "--types", ",".join(f"{kind}=1" for kind in types), "--priority", "10", "--cancel", "0", "--keyed", "0", "--again", "0",
			"--look", "0")
		yield seconds / 2
		if cold:
			yield from restarted(run, manager)
		yield seconds / 2
		load.signal(signal.SIGTERM)
		yield from finish(run, load, 40, f"the submitter {name}")
		for wire in wires:
			wire.tell("pass")
		until = now_us() + 60_000_000
		while run.stage.postgres.sql(f"select 1 from tasks where type like 'many-{name}-%' limit 1") and now_us() < until:
			yield 0.2
		worker.signal(signal.SIGTERM)
		yield from finish(run, worker, 30, f"worker {worker.life}")

	return Mishap("many types", f"{TYPES} of them, the database {2 * ms} ms away, for {seconds:.1f} s"
		f"{f', manager {manager.name} restarted meanwhile' if cold else ''}", steps, {*run.stage.managers,
		*(name for name in run.stage.proxies if name.startswith("database-"))})


def check_now(run, manager):
	"""`reeve check` at that manager has to answer within the limit."""
	since = now_us()
	check = subprocess.Popen([f"{run.stage.bin}/reeve", "check", "--manager", manager.url, "--failed", "1000000"],
		stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
	while check.poll() is None:
		yield 0.05
	took = (now_us() - since) / 1e6
	if check.returncode != 0 or took > run.limit_s:
		run.complain(f"`reeve check` ended with {check.returncode} after {took:.1f} s: {check.stdout.read().strip()[:200]}")


def submit_now(run, manager, name):
	"""A submit over a new connection has to be acknowledged within the limit."""
	since = now_us()
	submitter = run.stage.submit_meanwhile(name, [manager], "--count", "1", "--mix", "tiny=1", "--types", "fault-function=1", "--threads",
		"1", "--cancel", "0", "--keyed", "0", "--again", "0", "--look", "0", "--patience", "20000")
	yield from finish(run, submitter, 60, f"a new submitter, {name},")
	took = (now_us() - since) / 1e6
	if took > run.limit_s:
		run.complain(f"a submit over a new connection to manager {manager.name} took {took:.1f} s")


def flooded(run, rng):
	"""By one caller."""
	manager, kind, seconds = one_of(run, rng), rng.choice(sorted(FLOODS)), rng.randint(5, 10)
	count, deed = FLOODS[kind]
	name = run.next_name("flood")

	def steps(mishap):
		mishap.calm = True
		backlog = None
		if kind in ("fetches", "lost"):  # without one there is nothing that they could keep from others
			backlog = run.stage.submit_meanwhile(run.next_name("y"), run.stage.managers.values(), "--count", "3000", "--rate", "600", "--seed",
				"1", "--mix", "tiny=1", "--threads", "16", "--cancel", "0", "--keyed", "0", "--again", "0", "--look", "0")
		flood = run.stage.flood(name, manager, kind, count, seconds)
		while flood.alive and "begins" not in run.stage.log_of(name):
			yield 0.05
		mishap.begun = now_us()
		yield 1.5
		if deed == "submit":
			yield from submit_now(run, manager, run.next_name("n"))
		elif deed == "check":
			yield from check_now(run, manager)
		yield from finish(run, flood, seconds + 60, f"the flood of {kind}")
		if backlog:
			yield from finish(run, backlog, 60, f"the submitter {backlog.name}")
		run.say(run.stage.log_of(name).strip().replace("begins\n", ""))

	return Mishap(f"flooded with {kind}", f"{count} of them at manager {manager.name}, for {seconds} s", steps, {manager.name})


def fetches_parked(run, rng):
	"""By callers that have all the right to."""
	manager, seconds = one_of(run, rng), rng.randint(5, 10)
	name = run.next_name("flood")

	def steps(mishap):
		mishap.calm = True
		flood = run.stage.flood(name, manager, "parked", PARKED, seconds)
		yield from finish(run, flood, seconds + 120, "the flood of parked Fetches")
		run.say(run.stage.log_of(name).strip().replace("begins\n", ""))

	return Mishap("Fetches parked", f"{PARKED} of them at manager {manager.name}, for {seconds} s", steps, {manager.name})


def clock_jumped(run, rng):
	"""The database's clock is set forward by hours, and back. One manager may have seen only what came after."""
	hours, seconds, rest = rng.choice((2, 2, 26)), rng.uniform(2, 5), rng.uniform(1, 3)
	fresh, old = rng.sample(sorted(run.stage.managers), 2)
	how = rng.choice(("", "forward", "back"))

	def steps(mishap):
		mishap.calm = True
		managers = run.stage.managers
		if how == "back":  # it does not see the clock ahead
			managers[fresh].kill()
			yield 0.3
		run.stage.postgres.set_clock(hours * HOUR_S)
		mishap.begun = now_us()
		yield seconds
		if how == "forward":
			yield from restarted(run, managers[fresh])
		run.stage.postgres.set_clock(0)
		yield 0.5
		if how == "back":
			yield from started(run, managers[fresh])
			yield rest
			managers[old].kill()  # its callers go to the other one, with the time that it told them
			yield 0.5
			yield from started(run, managers[old])
		yield rest

	text = {"": "", "forward": f", manager {fresh} restarted meanwhile", "back": f", manager {fresh} away meanwhile, then {old} killed"}
	return Mishap("clock jumped", f"{hours} h forward for {seconds:.1f} s, and back{text[how]}", steps, {*run.stage.managers, "postgres"})


# With how often each is drawn.
STRANGERS = {
	frozen_in_a_transaction: 4,
	rows_locked: 3,
	history_read: 1,
	advisory_locks: 2,
	notify_noise: 3,
	types_many: 3,
	flooded: 5,
	fetches_parked: 2,
}

# At the end of a run: afterwards the times of ledgers and tables have nothing to do with each other, and schedules stand
# still until their next planned time.
LAST = {clock_jumped: 1}
