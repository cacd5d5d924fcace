"""The faults. Each kind is a function that returns a Fault. Its generator does a part of the fault, yields the seconds
to wait, and continues.

All random values are drawn from the run's generator before the fault begins, so that a seed gives the same faults in
the same order.
"""

import signal

from fault import Fault
from outside_faults import LAST, OUTSIDE, held, let_go
from watch import now_us

WORKER, CLIENT = "/reeve.v1.WorkerService/", "/reeve.v1.TaskService/"
OWED_IN_A_ROW = 2
TRIES = 3  # the maximum number of draws of a kind that has had no effect
ROLES = ("submit", "ready", "claim", "lookup", "report", "heartbeat", "edit", "read", "maintenance", "listen", "lease")


def worker_killed(run, rng):
	worker = rng.choice(sorted(run.fixture.workers.values(), key=lambda w: w.name))
	rest, same = rng.uniform(0, 2.5), rng.random() < 0.3

	def steps(fault):
		worker.wanted = False
		fault.interrupted = run.running_at(worker)
		worker.kill()
		yield rest
		worker.start(same)
		while same and (yield 0.3) is None and run.refused(worker):  # like a service manager
			worker.start(same)

	return Fault("worker killed", f"{worker.name}, back after {rest:.1f} s{' under the same name' if same else ''}", steps,
		{worker.name})


def worker_frozen(run, rng):
	worker = rng.choice(sorted(run.fixture.workers.values(), key=lambda w: w.name))
	leases = rng.choice([rng.uniform(0.2, 0.7), rng.uniform(0.9, 1.1), rng.uniform(1.5, 3.0)])
	seconds = leases * run.fixture.lease_ms / 1000

	def steps(fault):
		if leases > 1.2:
			fault.interrupted = run.running_at(worker)
		worker.signal(signal.SIGSTOP)
		yield seconds
		worker.signal(signal.SIGCONT)

	return Fault("worker frozen", f"{worker.name} for {seconds:.1f} s", steps, {worker.name})


def worker_drained(run, rng):
	worker = rng.choice(sorted(run.fixture.workers.values(), key=lambda w: w.name))

	def steps(_):
		worker.wanted = False
		worker.signal(signal.SIGTERM)
		while worker.alive:
			yield 0.1
		if worker.code not in (0, 3) and not worker.killed_by_watchdog():  # the lease may end while it drains
			run.complain(f"worker {worker.life} ended with {worker.code} after a SIGTERM")
		worker.start()

	return Fault("worker drained", f"{worker.name}, and started again", steps, {worker.name})


def worker_poisoned(run, rng):
	"""A task whose function kills its worker, in the first attempt or in each."""
	kind = rng.choice(("crash", "crash", "poison"))

	def steps(fault):
		fault.bounded = fault.bounded and kind == "crash"
		name = run.poison(kind)
		while True:
			for worker in run.fixture.workers.values():
				if worker.kind == "function" and not worker.alive:
					fault.interrupted |= run.running_at(worker)
					if worker.code != -signal.SIGKILL:
						run.complain(f"worker {worker.life} ended with {worker.code} by a task that kills it")
					worker.start()
			yield 0.1
			rows = run.fixture.postgres.sql(f"select status from task_history where details like '{name}-1 %'")
			if rows and rows[0][0] != {"crash": "completed", "poison": "dead"}[kind]:
				run.complain(f"the task {name}-1 ({kind}) is {rows[0][0]}")
			if rows:
				return

	return Fault("worker poisoned", f"by a task of the kind {kind}", steps, {"f1", "f2"})


def watchdog_killed(run, rng):
	worker = rng.choice(sorted(run.fixture.workers.values(), key=lambda w: w.name))
	both = rng.random() < 0.5

	def steps(fault):
		fault.interrupted = run.running_at(worker)
		children = worker.children()
		if both:
			worker.kill()
		for child in children:
			run.kill(child)
		while worker.alive:
			yield 0.05
		if worker.code != (-signal.SIGKILL if both else 1):
			run.complain(f"worker {worker.life} ended with {worker.code} after its watchdog was killed")
		worker.start()

	return Fault("watchdog killed", f"of {worker.name}{', and that too' if both else ''}", steps, {worker.name})


def manager_killed(run, rng):
	manager = rng.choice(sorted(run.fixture.managers.values(), key=lambda m: m.name))
	rest = rng.uniform(0.1, 3)

	def steps(_):
		manager.kill()
		yield rest
		manager.start()

	return Fault("manager killed", f"{manager.name}, back after {rest:.1f} s", steps, {manager.name})


def manager_frozen(run, rng):
	manager = rng.choice(sorted(run.fixture.managers.values(), key=lambda m: m.name))
	seconds = rng.uniform(0.3, 6)

	def steps(_):
		manager.signal(signal.SIGSTOP)
		yield seconds
		manager.signal(signal.SIGCONT)

	return Fault("manager frozen", f"{manager.name} for {seconds:.1f} s", steps, {manager.name})


def manager_restarted(run, rng):
	manager = rng.choice(sorted(run.fixture.managers.values(), key=lambda m: m.name))

	def steps(_):
		manager.signal(signal.SIGTERM)
		while manager.alive:
			yield 0.05
		if manager.code != 0:
			run.complain(f"manager {manager.name} ended with {manager.code} after a SIGTERM")
		manager.start()

	return Fault("manager restarted", manager.name, steps, {manager.name})


def managers_killed(run, rng):
	rest = rng.uniform(0.3, 4)

	def steps(fault):
		fault.outage = True
		for manager in run.fixture.managers.values():
			manager.kill()
		yield rest
		for manager in run.fixture.managers.values():
			manager.start()

	return Fault("all managers killed", f"back after {rest:.1f} s", steps, set(run.fixture.managers))


def postgres_crashed(run, rng):
	rest = rng.uniform(0.1, 4.5)

	def steps(fault):
		fault.outage = True
		run.fixture.postgres.stop(signal.SIGQUIT)
		yield rest
		run.fixture.postgres.start()
		while not run.fixture.postgres.answers():
			yield 0.05

	return Fault("PostgreSQL crashed", f"down for {rest:.1f} s", steps, {"postgres"})


def postgres_frozen(run, rng):
	seconds = rng.uniform(0.3, 4.5)

	def steps(fault):
		fault.outage = True
		run.fixture.postgres.signal_all(signal.SIGSTOP)
		yield seconds
		run.fixture.postgres.signal_all(signal.SIGCONT)

	return Fault("PostgreSQL frozen", f"for {seconds:.1f} s", steps, {"postgres"})


def table_locked(run, rng):
	"""Statements wait and are executed late: for example, a claim after its worker was lost."""
	table = rng.choice(("tasks", "assignments", "workers", "task_history", "requests", "task_attempts", "schedules", "schedule_runs",
		"inbox"))
	how = rng.choice((f"lock table {table} in access exclusive mode", f"select from {table} for no key update"))
	seconds = rng.uniform(0.3, 4)

	def steps(fault):
		fault.outage = True
		holder = yield from held(run, how, seconds, tries=2)  # a session that waits for the lock blocks others
		if not holder:
			fault.missed = "the lock was not to be had"
			return
		yield from let_go(fault, holder)

	return Fault("locks held", f"{how}, for {seconds:.1f} s", steps, {"postgres"})


def connections_terminated(run, rng):
	roles = rng.sample(ROLES, rng.randint(1, len(ROLES)))
	rounds = rng.randint(1, 4)

	def steps(fault):
		fault.missed = "there was no such connection"
		for _ in range(rounds):
			names = ", ".join(f"'reeve-manager {role}'" for role in roles)
			if run.fixture.postgres.sql(f"select pg_terminate_backend(pid) from pg_stat_activity where application_name in ({names})"):
				fault.missed = ""
			yield 0.2

	return Fault("connections terminated", f"{rounds} times: {', '.join(roles)}", steps, {"postgres"})


def network_drops(run, rng):
	proxy = run.fixture.proxies[rng.choice(("to-one", "to-two"))]
	verb, way, seconds = rng.choice(("drop", "hold")), rng.choice(("up", "down", "both")), rng.uniform(0.3, 3)

	def steps(_):
		proxy.tell(verb, way)
		yield seconds
		proxy.tell("pass")

	return Fault(f"network {verb}s", f"{proxy.name}, {way}, for {seconds:.1f} s", steps, {proxy.name})


def network_delays(run, rng):
	proxy = run.fixture.proxies[rng.choice(("to-one", "to-two", "database-one", "database-two"))]
	ms, seconds = rng.randint(10, 200), rng.uniform(1, 4)

	def steps(_):
		proxy.tell("delay", "both", str(ms))
		yield seconds
		proxy.tell("pass")

	return Fault("network delays", f"{proxy.name}, {ms} ms each way, for {seconds:.1f} s", steps, {proxy.name})


def network_resets(run, rng):
	proxy = run.fixture.proxies[rng.choice(("to-one", "to-two", "database-one", "database-two"))]
	rounds, rest = rng.randint(1, 4), rng.choice([0, rng.uniform(0.5, 3)])

	def steps(_):
		if rest:
			proxy.tell("refuse")
		for _ in range(rounds):
			proxy.tell("cut")
			yield 0.1
		yield rest
		proxy.tell("pass")

	return Fault("network resets", f"{proxy.name}, {rounds} times{f', refusing for {rest:.1f} s' if rest else ''}", steps,
		{proxy.name})


RULES = 3  # to try until one applies, since some messages are rare


def rule_applies(fault, proxy, rules):
	"""Gives the proxy one rule after another, for 2 s each, until one has applied."""
	for rule in rules:
		before = proxy.applied()
		proxy.tell(*rule)
		yield 2
		applied = proxy.applied() - before
		proxy.tell("pass")
		fault.text = f"{proxy.name}, {' '.join(rule)} of them"
		if applied > 0:
			return
	fault.missed = "there were no such messages"


def messages_lost(run, rng):
	proxy = run.fixture.proxies[rng.choice(("to-one", "to-two"))]
	rules = []
	for _ in range(RULES):
		method = WORKER + rng.choice(("Fetch", "Report", "Report", "Heartbeat", "Register"))
		rule = rng.choice((("answer", "lose", method), ("message", "lose", method), ("message", "double", method),
			("message", "late", method, str(rng.randint(200, 2500)))))
		rules.append((*rule, str(rng.randint(1, 5))))

	def steps(fault):
		yield from rule_applies(fault, proxy, rules)

	return Fault("messages lost", proxy.name, steps, {proxy.name})


def outcomes_unknown(run, rng):
	"""Manager two does not learn the result of a statement, or PostgreSQL never receives the statement."""
	proxy = run.fixture.proxies["database-two"]
	words = rng.sample(("claim", "complete", "end_attempts", "submit", "submit_plain", "heartbeat", "commit", "cancel_mark",
		"schedules_fire", "schedules_fire", "schedule_control", "schedule_edit", "schedule_run", "inbox_ingest"), RULES)
	rules = [(rng.choice(("answer", "answer", "message")), "lose", word, str(rng.randint(1, 3))) for word in words]

	def steps(fault):
		yield from rule_applies(fault, proxy, rules)

	return Fault("outcomes unknown", proxy.name, steps, {"database-two", "two"})


def database_unreachable(run, rng):
	proxy = run.fixture.proxies["database-two"]
	verb, way, seconds = rng.choice(("drop", "hold")), rng.choice(("up", "down", "both")), rng.uniform(0.3, 4)

	def steps(_):
		proxy.tell(verb, way)
		yield seconds
		proxy.tell("pass")

	return Fault("database unreachable for manager two", f"{verb} {way}, for {seconds:.1f} s", steps, {"database-two", "two"})


def workers_cut_off(run, rng):
	"""Cuts off the workers that talk to both managers through the proxies."""
	leases, way = rng.choice([0.5, rng.uniform(1.5, 3)]), rng.choice(("up", "down", "both"))
	seconds = leases * run.fixture.lease_ms / 1000
	wires = [run.fixture.proxies[name] for name in ("to-one", "to-two")]

	def steps(fault):
		if leases > 1:
			fault.interrupted = run.running_at(run.fixture.workers["e2"]) | run.running_at(run.fixture.workers["f2"])
		for wire in wires:
			wire.tell("drop", way)
		yield seconds
		for wire in wires:
			wire.tell("pass")

	return Fault("workers cut off", f"e2 and f2, {way}, for {seconds:.1f} s", steps, {"to-one", "to-two"})


def host_cut_off(run, rng):
	leases = rng.choice([0.5, rng.uniform(1.5, 3)])
	seconds = leases * run.fixture.lease_ms / 1000
	worker = run.fixture.workers.get("h1")

	def steps(fault):
		if leases > 1:
			fault.interrupted = run.running_at(worker)
		run.fixture.host.set_link("down")
		yield seconds
		run.fixture.host.set_link("up")

	return Fault("host cut off", f"for {seconds:.1f} s", steps, {"h1"})


# The kinds, with their weights in the draw.
KINDS = {
	worker_killed: 5,
	worker_frozen: 5,
	worker_drained: 2,
	worker_poisoned: 1,
	watchdog_killed: 1,
	manager_killed: 4,
	manager_frozen: 3,
	manager_restarted: 2,
	managers_killed: 1,
	postgres_crashed: 2,
	postgres_frozen: 2,
	table_locked: 3,
	connections_terminated: 4,
	network_drops: 4,
	network_delays: 2,
	network_resets: 3,
	messages_lost: 4,
	outcomes_unknown: 3,
	database_unreachable: 2,
	workers_cut_off: 3,
	host_cut_off: 3,
	**OUTSIDE,
}


class Deck:
	"""Decides which kinds are drawn, and in which order. First each kind of outside_faults.py is drawn once, two of them and
	then one of the others, so that even a run of two minutes has them all. Then all kinds are drawn by weight. A kind
	that had no effect is drawn again."""

	def __init__(self, rng, kinds):
		self.rng, self.kinds = rng, kinds
		self.weights = {**KINDS, **LAST}
		self.others = [kind for kind in kinds if kind not in OUTSIDE]
		self.owed = [kind for kind in kinds if kind in OUTSIDE]  # must still be drawn
		self.rng.shuffle(self.owed)
		self.in_a_row = 0
		self.drawn, self.missed = {}, {}  # numbers of draws by kind: all, and those without effect

	def any_of(self, kinds):
		return self.rng.choices(kinds, [self.weights[kind] for kind in kinds])[0]

	def draw(self):
		"""Returns the next kinds: one, or two at once. A kind of `owed` is alone, so that its recovery is checked."""
		if self.owed and (self.in_a_row < OWED_IN_A_ROW or not self.others):
			self.in_a_row += 1
			return [self.owed.pop(0)]
		kinds = self.others if self.owed else self.kinds
		self.in_a_row = 0
		return [self.any_of(kinds) for _ in range(2 if self.rng.random() < 0.2 else 1)]

	def note(self, kind, missed):
		self.drawn[kind] = self.drawn.get(kind, 0) + 1
		if missed:
			self.missed[kind] = self.missed.get(kind, 0) + 1
			if self.missed[kind] == self.drawn[kind] < TRIES:
				self.owed.append(kind)

	def without_effect(self):
		"""Returns the names of the kinds that were drawn and never had an effect."""
		return [kind.__name__ for kind, times in self.drawn.items() if self.missed.get(kind, 0) == times]


def choose(options, fixture):
	"""Returns the kinds that --only, --without and the machine permit: those for the run, and those for its end."""
	names = {kind.__name__: kind for kind in [*KINDS, *LAST]}
	for name in [*(options.only or []), *(options.without or [])]:
		if name not in names:
			raise ValueError(f"there is no kind of fault {name}; there are: {', '.join(names)}")
	wanted = [kind for name, kind in names.items() if name in (options.only or names) and name not in (options.without or [])]
	wanted = [kind for kind in wanted if fixture.host or kind is not host_cut_off]
	wanted = [kind for kind in wanted if fixture.with_clock or kind not in LAST]
	return [kind for kind in wanted if kind not in LAST], [kind for kind in wanted if kind in LAST]


def begin(fault):
	fault.begun = now_us()


def end(fault):
	fault.ended = now_us()
