"""The rules: what must hold between ledgers, tables and audit. Each rule is a function that adds the violations it
finds.

A violation's kind begins with the invariant that it breaks (docs/invariants.md). A rule may trust a ledger about what a
handler did and what a submitter was answered. It reads the rows of the tables, but does not trust that they are right.
"""

import re

from audit_rules import AUDIT_RULES
from batch_rules import BATCH_RULES
from count_rules import COUNT_RULES
from facts import FINAL, print_of
from pipeline_rules import PIPELINE_RULES, went_on
from schedule_rules import SCHEDULE_RULES
from sql_rules import SQL_RULES

OWN_ERROR = re.compile(r"^(failed|fatal) (\d+)$")
CLOCK_TOLERANCE_US = 100_000  # between a ledger's time and the database's


class Violation:
	def __init__(self, kind, text):
		self.kind, self.text = kind, text

	def __str__(self):
		return f"{self.kind}: {self.text}"


class Attempt:
	"""An attempt according to the tables: claimed with its token, and perhaps ended."""

	def __init__(self, row, token, end, outcome, status, by_report, error, place):
		self.row, self.token, self.end, self.outcome, self.status = row, token, end, outcome, status
		self.by_report, self.error, self.place = by_report, error, place
		self.task, self.number, self.worker, self.assignment = row["id"], row["attempt"], row["worker_id"], row["assignment_id"]

	def __str__(self):
		return f"attempt {self.number} (token {self.token}, {self.outcome or 'running'} in {self.place})"


class Found:
	"""The facts, grouped by task, and the violations found in them."""

	def __init__(self, before, after, tables, options):
		self.before, self.after, self.tables, self.options = before, after, tables, options
		self.list = []
		self.by_id = {}  # id -> rows of tasks and task_history
		for row in tables.tasks + tables.history:
			self.by_id.setdefault(row["id"], []).append(row)
		self.chains = {}  # id -> its attempts in the order of their tokens
		for row in tables.attempts:
			self.chain(Attempt(row, row["token"], row["version"], row["outcome"], row["status"], row["by_report"],
				row["error"], "task_attempts"))
		for row in tables.history:
			if row["token"] is not None:
				self.chain(Attempt(row, row["token"], row["version"], row["status"], row["status"], row["by_report"],
					row["last_error"], "task_history"))
		for row in tables.tasks:
			if row["status"] == "executing":
				self.chain(Attempt(row, row["version"], None, None, None, False, None, "tasks"))
		for chain in self.chains.values():
			chain.sort(key=lambda attempt: attempt.token)
		self.known = {(a.task, a.token): a for chain in self.chains.values() for a in chain}
		self.events = {}  # id -> its task_events
		for event in tables.events:
			self.events.setdefault(event["task_id"], []).append(event)
		self.workers = {row["id"]: row for row in tables.workers}
		self.runs = {}  # id -> its attempts as handlers saw them, in the order of tokens
		for begun in sorted(after.begun.values(), key=lambda b: b.token):
			self.runs.setdefault(begun.task, []).append(begun)
		# Types whose handlers write ledgers. A missing line is evidence only for these.
		self.ledgered = {row["type"] for task in self.runs for row in self.by_id.get(task, [])}
		self.tasks = len(self.by_id)
		self.attempts = len(self.known)

	def chain(self, attempt):
		self.chains.setdefault(attempt.task, []).append(attempt)

	def add(self, kind, text):
		self.list.append(Violation(kind, text))

	def title(self, task):
		rows = self.by_id.get(task)
		name = rows[0]["name"] if rows else ""
		return f"task {task}" + (f" ({name})" if name else "")

	def has_event(self, task, event, after=None, until=None):
		return any(e["event"] == event and (after is None or e["version"] > after) and
			(until is None or e["version"] <= until) for e in self.events.get(task, []))

	def keeps_ledger(self, task):
		return any(row["type"] in self.ledgered for row in self.by_id.get(task, []))


def seconds(us):
	return f"{us / 1e6:.6f} s"


# ---- I1: lost submits, second tasks of repeated submits ----


def acknowledged_is_there(f):
	for name, lines in f.before.acks.items():
		for task in sorted({line["id"] for line in lines}):
			if task not in f.by_id:
				f.add("I1 lost", f"{name} was acknowledged as task {task} at {seconds(lines[0]['t'])}; no table has it")
	for line in f.before.seen:
		if line["status"] == "":
			f.add("I1 lost", f"task {line['id']} was acknowledged, and not found at {seconds(line['t'])}")


def acknowledged_alike(f):
	owner = {}
	for name, lines in f.before.acks.items():
		ids = sorted({line["id"] for line in lines})
		if len(ids) > 1:
			f.add("I1 made-twice", f"{name} was acknowledged as the tasks {ids}")
		for task in ids:
			if owner.setdefault(task, name) != name:
				f.add("I1 mixed-up", f"task {task} was acknowledged to {owner[task]} and to {name}")
			for row in f.by_id.get(task, []):
				if row["name"] != name:
					f.add("I1 mixed-up", f"task {task} was acknowledged to {name}, but is the task of {row['name']}")


def made_once(f):
	ids = {}
	prefixes = {name.rsplit("-", 1)[0] for name in f.after.submits}
	for task, rows in f.by_id.items():
		for row in rows:
			if row["name"].rsplit("-", 1)[0] in prefixes:
				ids.setdefault(row["name"], set()).add(task)
	for name, tasks in ids.items():
		if len(tasks) > 1:
			f.add("I1 made-twice", f"{name} has become the tasks {sorted(tasks)}")
		if name not in f.after.submits:
			f.add("I1 made-of-nothing", f"task {sorted(tasks)[0]} ({name}) was submitted by nobody")


def requests_and_keys(f):
	for row in f.tables.requests:
		for task in row["task_ids"]:
			if row["kind"] == "submit" and task not in f.by_id:
				f.add("I1 lost", f"a request was answered task {task}; no table has it")
	short_lived = {(row["queue"], row["key"]) for row in f.tables.keys if row["keep_ms"] is not None}
	owners = {}
	for task, rows in f.by_id.items():
		for row in rows:
			if row["key"] is not None and (row["queue"], row["key"]) not in short_lived:
				owners.setdefault((row["queue"], row["key"]), set()).add(task)
	for (queue, key), tasks in owners.items():
		if len(tasks) > 1:
			f.add("I1 made-twice", f"the key {key} of queue {queue} has made the tasks {sorted(tasks)}")
	for row in f.tables.keys:
		if row["task_id"] not in f.by_id:
			f.add("I1 lost", f"the key {row['key']} of queue {row['queue']} names task {row['task_id']}; no table has it")


# ---- I2: two workers with the same task at the same time ----


def goes_on_past_its_expiry(f, begun):
	"""Nothing stops a C function that ignores that it must stop, but the watchdog at the lease's end."""
	attempt = f.known.get((begun.task, begun.token))
	return (attempt is not None and attempt.row.get("error_code") == "expired" and begun.told is not None
		and (not f.options.one_clock or begun.told + f.tables.clock_offset <= attempt.end + CLOCK_TOLERANCE_US)
		and any(row["type"] == "fault-function" for row in f.by_id.get(begun.task, [])))


def one_holder(f):
	for task, runs in f.runs.items():
		for begun in runs:
			if len(begun.starts) > 1:
				places = ", ".join(f"{line.get('worker')} (process {line.get('pid')}) at {seconds(line['t'])}" for line in begun.starts)
				f.add("I2 begun-twice", f"{f.title(task)}: {begun} was begun by {places}")
		latest = None  # the earlier attempt with the latest sign of life
		for begun in runs:
			if latest is not None and latest.last > begun.start and not goes_on_past_its_expiry(f, latest):
				f.add("I2 two-holders", f"{f.title(task)}: {latest} gave a sign of life at {seconds(latest.last)}, "
					f"{(latest.last - begun.start) / 1000:.1f} ms after {begun} had started at {seconds(begun.start)}")
			if latest is None or begun.last > latest.last:
				latest = begun


def run_by_its_worker(f):
	for task, runs in f.runs.items():
		for begun in runs:
			attempt = f.known.get((task, begun.token))
			worker = f.workers.get(attempt.worker) if attempt else None
			if worker and begun.worker is not None and worker["name"] != begun.worker:
				f.add("I2 wrong-worker", f"{f.title(task)}: {begun} was given to worker {worker['name']} "
					f"(incarnation {attempt.worker})")


def within_its_lock(f):
	"""With one clock: no attempt runs before its claim, or after its end according to the tables."""
	if not f.options.one_clock:
		return
	for task, runs in f.runs.items():
		for begun in runs:
			attempt = f.known.get((task, begun.token))
			if not attempt:
				continue
			first, last = begun.first + f.tables.clock_offset, begun.last + f.tables.clock_offset
			if first < attempt.token - CLOCK_TOLERANCE_US:
				f.add("I2 before-its-claim", f"{f.title(task)}: {begun} ran {(attempt.token - first) / 1000:.1f} ms before "
					f"it was claimed")
			if attempt.end is not None and last > attempt.end + CLOCK_TOLERANCE_US and not goes_on_past_its_expiry(f, begun):
				f.add("I2 outlived", f"{f.title(task)}: {begun} gave a sign of life at {seconds(begun.last)}, "
					f"{(last - attempt.end) / 1000:.1f} ms after it had ended ({attempt.outcome})")


# ---- I3: changes by attempts that have lost their lock, more than one final state ----


def results_are_their_attempts(f):
	for attempt in f.known.values():
		if not f.keeps_ledger(attempt.task):
			continue
		begun = f.after.begun.get((attempt.task, attempt.token))
		if attempt.outcome == "completed":
			if begun is None or begun.outcome != "completed":
				said = "no handler has begun it" if begun is None else f"its handler ended it: {begun.outcome or 'not at all'}"
				f.add("I3 unearned", f"{f.title(attempt.task)}: {attempt} is said completed; {said}")
			if attempt.place == "task_history":
				result = (attempt.row["result"] or "").split(" ")
				if begun is not None and begun.result is not None:
					if begun.result != print_of(attempt.row["result"]):
						f.add("I3 stale-result", f"{f.title(attempt.task)}: {attempt} has the result {attempt.row['result']!r}")
				elif len(result) == 2 and result[1].isdigit() and int(result[1]) != attempt.token:
					f.add("I3 stale-result", f"{f.title(attempt.task)}: {attempt} has the result of token {result[1]}")
				elif begun is not None and result != [begun.name, str(attempt.token)]:
					f.add("I3 stale-result", f"{f.title(attempt.task)}: {attempt} has the result {attempt.row['result']!r}")
		match = OWN_ERROR.match(attempt.error or "")
		if match and attempt.by_report and attempt.outcome in ("failed", "fatal", "dead"):
			if int(match[2]) != attempt.token:
				f.add("I3 stale-result", f"{f.title(attempt.task)}: {attempt} has the error of token {match[2]}")
			elif begun is None or begun.outcome != match[1]:
				f.add("I3 unearned", f"{f.title(attempt.task)}: {attempt} is said {match[1]}; its handler did not say so")


def completions_win(f):
	"""An attempt that completed more than 500 ms before a cancel was requested, and whose report was accepted, is not
	cancelled. (Not checked in pipelines, where the task is cancelled unless that was its last stage.)"""
	for attempt in f.known.values():
		if attempt.row.get("pipeline_id") is not None:
			continue
		begun = f.after.begun.get((attempt.task, attempt.token))
		cancel = f.after.cancels.get(attempt.task)
		if (attempt.outcome == "cancelled" and attempt.by_report and begun and begun.outcome == "completed" and
				begun.told is None and cancel is not None and begun.end + 500_000 < cancel):
			f.add("I3 overruled", f"{f.title(attempt.task)}: {begun} had completed at {seconds(begun.end)}; the cancel was "
				f"asked for at {seconds(cancel)}, and it is said cancelled by its report")


def late_results_changed_nothing(f):
	for task, events in f.events.items():
		for event in events:
			attempt = f.known.get((task, event["version"]))
			if event["event"] == "late_result" and attempt and attempt.by_report:
				f.add("I3 late-counted", f"{f.title(task)}: a result came after the lock was lost, yet {attempt} was ended "
					"by a report")


def one_final_state(f):
	for task, rows in f.by_id.items():
		if len(rows) > 1:
			f.add("I3 two-states", f"{f.title(task)} is there {len(rows)} times: {', '.join(row['status'] for row in rows)}")
		chain = f.chains.get(task, [])
		for attempt, following in zip(chain, chain[1:] + [None]):
			if attempt.place != "task_attempts" or attempt.status not in FINAL:
				continue
			until = following.token if following else None
			if not f.has_event(task, "retried", attempt.end, until):
				f.add("I3 final-changed", f"{f.title(task)}: {attempt} ended it ({attempt.status}); nobody retried it, and "
					f"{'another attempt followed' if following else 'it is not in that state'}")
		for row in rows:
			if "token" not in row:
				continue
			for attempt in chain:
				if attempt.place != "task_history" and max(attempt.token, attempt.end or 0) > row["version"]:
					f.add("I3 final-changed", f"{f.title(task)}: {row['status']} at version {row['version']}, and {attempt} "
						"is later")


def final_states_stay(f):
	looks = [(line["id"], line["status"], line["t"]) for line in f.before.seen + f.before.cancelled]
	for task, status, t in looks:
		if status not in FINAL or f.has_event(task, "retried"):
			continue
		for row in f.by_id.get(task, []):
			if row["status"] != status:
				f.add("I3 final-changed", f"{f.title(task)} was seen {status} at {seconds(t)}, and is {row['status']}")


def cancels_stand(f):
	for task, events in f.events.items():
		for event in events:
			if event["event"] != "cancel_requested":
				continue
			for attempt in f.chains.get(task, []):
				if attempt.token > event["version"] and not f.has_event(task, "retried", event["version"], attempt.token):
					f.add("I3 claimed-after-cancel", f"{f.title(task)}: cancelled at version {event['version']}, and then "
						f"claimed as {attempt}")
	for row in f.tables.history:
		if row["status"] == "cancelled" and not f.has_event(row["id"], "cancel_requested"):
			f.add("I6 event-missing", f"{f.title(row['id'])} is cancelled, and nobody asked for it")
	for line in f.before.cancelled:
		if line.get("changed") and not f.has_event(line["id"], "cancel_requested"):
			f.add("I6 event-missing", f"{f.title(line['id'])}: its cancel was acknowledged at {seconds(line['t'])}; the "
				"audit knows of none")


# ---- I4: tasks that stay in executing ----


def nothing_is_stuck(f):
	for row in f.tables.tasks:
		worker = f.workers.get(row["worker_id"])
		if not f.options.running:
			kind = "stuck" if row["status"] == "executing" else "not-ended"
			f.add(f"I4 {kind}", f"{f.title(row['id'])} is {row['status']}, attempt {row['attempt']}, of worker "
				f"{worker['name'] if worker else '?'} (incarnation {row['worker_id']}, "
				f"{'lost' if worker and worker['lost'] else 'not lost'})")
		elif row["status"] == "executing":
			if worker is None or (worker["gone_s"] or 0) > f.options.slack:
				gone = f"gone for {worker['gone_s']:.1f} s" if worker else "unknown"
				f.add("I4 stuck", f"{f.title(row['id'])} is executing; its worker, incarnation {row['worker_id']}, is {gone}")
			elif (row["expired_s"] or 0) > f.options.slack:
				f.add("I4 stuck", f"{f.title(row['id'])} is executing, {row['expired_s']:.1f} s past its expiry")


def journal_is_right(f):
	"""Each attempt is in the journal once, each entry of the journal has an attempt, and open ones run."""
	journal = {}
	for row in f.tables.assignments:
		running = 0
		for task in row["task_ids"]:
			journal[(row["id"], task)] = row
		for task in row["task_ids"]:
			for live in f.by_id.get(task, []):
				if "token" not in live and live["status"] == "executing" and live["assignment_id"] == row["id"]:
					running += 1
		if row["open"] != running or row["closed"] != (running == 0):
			f.add("I4 journal-open", f"assignment {row['id']} (of worker {row['worker_id']}, Fetch {row['fetch_id']}) says "
				f"that {row['open']} of its {len(row['task_ids'])} attempts are open{', closed' if row['closed'] else ''}; "
				f"{running} run")
	told = set()
	for attempt in f.known.values():
		row = journal.get((attempt.assignment, attempt.task))
		if (attempt.assignment, attempt.task) in told:
			f.add("I6 journal-differs", f"{f.title(attempt.task)}: two attempts of assignment {attempt.assignment}")
		told.add((attempt.assignment, attempt.task))
		if row is None:
			f.add("I6 journal-differs", f"{f.title(attempt.task)}: {attempt} is of assignment {attempt.assignment}, whose row "
				"does not name it")
		elif row["worker_id"] != attempt.worker:
			f.add("I2 wrong-worker", f"{f.title(attempt.task)}: {attempt} is of incarnation {attempt.worker}, its assignment "
				f"of {row['worker_id']}")
	for (assignment, task), row in journal.items():
		if (assignment, task) not in told:
			f.add("I6 attempt-missing", f"{f.title(task)} was given to incarnation {row['worker_id']} by assignment "
				f"{assignment}; no attempt tells what became of that")


# ---- I5: endless attempts of tasks that kill their workers ----


def attempts_are_counted(f):
	"""Failed and lost attempts count; returned ones do not. Requeues and lease ends count from the third in a row."""
	for task, chain in f.chains.items():
		previous, free_row = None, 0
		for attempt in chain:
			if previous is None or previous.status in FINAL or went_on(previous):
				wanted = (1,)
			elif previous.status == "failed":
				wanted = (previous.number + 1,)
			elif previous.outcome in ("lease_ended", "requeued"):
				wanted = (previous.number, previous.number + 1)
			else:
				wanted = (previous.number,)
			if attempt.number not in wanted:
				after = f"after {previous}" if previous else "as its first"
				f.add("I6 attempt-missing", f"{f.title(task)}: {attempt} follows {after}; its number should be {wanted[0]}")
			free = previous is not None and previous.outcome in ("lease_ended", "requeued")
			free_row = free_row + 1 if free and attempt.number == previous.number else 0
			if free_row > 2:
				f.add("I5 endless", f"{f.title(task)}: {attempt} is the third in a row that follows one requeued or ended "
					"with its lease at no cost")
			if attempt.number > attempt.row.get("max_attempts", attempt.number):
				f.add("I5 endless", f"{f.title(task)}: {attempt} of at most {attempt.row['max_attempts']}")
			previous = attempt


def dead_for_a_reason(f):
	for row in f.tables.history:
		if row["status"] != "dead" or row["attempt"] >= row["max_attempts"]:
			continue
		begun = f.after.begun.get((row["id"], row["token"]))
		if row["error_code"] in ("unknown_stage", "too_many_steps") and row["pipeline_id"] is not None:
			continue  # pipeline_rules.py checks these
		if not row["by_report"] or (f.keeps_ledger(row["id"]) and (begun is None or begun.outcome != "fatal")):
			f.add("I5 dead-too-early", f"{f.title(row['id'])} is dead after attempt {row['attempt']} of {row['max_attempts']} "
				f"({row['error_code']}: {row['last_error']}), and its handler did not say that it was fatal")


# ---- I6: attempts that the tables lack (audit_rules.py: events missing from the audit, or out of order) ----


def what_was_begun_is_known(f):
	for (task, token), begun in f.before.begun.items():
		attempt = f.known.get((task, token))
		if attempt is None:
			f.add("I6 attempt-missing", f"{f.title(task)}: {begun} ran from {seconds(begun.first)}; the tables know of no "
				"attempt with this token")
		elif begun.starts and begun.starts[0]["attempt"] != attempt.number:
			f.add("I6 attempt-missing", f"{f.title(task)}: {begun} is {attempt} in the tables")


RULES = BATCH_RULES + COUNT_RULES + PIPELINE_RULES + SCHEDULE_RULES + SQL_RULES + (
	acknowledged_is_there, acknowledged_alike, made_once, requests_and_keys,
	one_holder, run_by_its_worker, within_its_lock,
	results_are_their_attempts, completions_win, late_results_changed_nothing, one_final_state, final_states_stay,
	cancels_stand,
	nothing_is_stuck, journal_is_right,
	attempts_are_counted, dead_for_a_reason,
	what_was_begun_is_known,
) + AUDIT_RULES


# Kinds that compare times of different rows, which means nothing after the clock has been set back.
BY_THE_CLOCK = ("I3 batch-ended-early", "I6 batch-order", "I1 firing-lost", "I2 firing-overlap", "I3 firing-off", "I4 firing-late",
	"I6 firing-order", "I6 firing-outcome")


def violations_of(before, after, tables, options):
	found = Found(before, after, tables, options)
	for rule in RULES:
		rule(found)
	if options.clock_set:  # a callback's retry from the time ahead waits until the clock is there again
		found.list = [v for v in found.list if v.kind not in BY_THE_CLOCK and not ("callback" in v.text and " is waiting" in v.text)]
	return found
