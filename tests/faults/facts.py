"""The facts for the checker: the ledgers of handlers and submitters, and the tables of the database.

This module reads facts and does not judge them. Times in ledgers are CLOCK_MONOTONIC in microseconds. Tokens, versions
and other times of the database are microseconds since 1970.
"""

import json
import os
import re
import shutil
import subprocess
import time

from count_rules import COUNTS, LIVE

FINAL = ("completed", "dead", "cancelled")  # the statuses of tasks that have ended


class Undecidable(Exception):
	"""The facts are unavailable or cannot be parsed."""


def print_of(text):
	"""Returns a text's FNV-1a and length, the form in which ledgers record inputs and results of stages (ledger.c)."""
	data, value = (text or "").encode(), 0xCBF29CE484222325
	for byte in data:
		value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
	return f"{value:016x}/{len(data)}"


class Begun:
	"""An attempt as its handler saw it: all lines with one (task, token)."""

	def __init__(self, task, token):
		self.task, self.token = task, token
		self.starts = []  # start lines; more than one is a violation
		self.first = None  # times of the first and the last sign of life
		self.last = None
		self.told = None  # time of the first request to stop
		self.end = None  # time of its end line …
		self.outcome = None  # … and the outcome there
		self.result = None  # in a pipeline: print_of() of its result …
		self.next = None  # … and the stage that it chose; False: the task's end

	def add(self, line):
		t = line["t"]
		self.first = t if self.first is None else min(self.first, t)
		self.last = t if self.last is None else max(self.last, t)
		if line["ev"] == "start":
			self.starts.append(line)
		elif line["ev"] == "told" and self.told is None:
			self.told = t
		elif line["ev"] == "end":
			self.end, self.outcome = t, line["outcome"]
			self.result, self.next = line.get("result"), line.get("next")

	@property
	def start(self):
		return min((line["t"] for line in self.starts), default=self.first)

	@property
	def name(self):
		return self.starts[0].get("name", "") if self.starts else ""

	@property
	def worker(self):
		return self.starts[0].get("worker") if self.starts else None

	def __str__(self):
		where = "" if not self.starts else f" of worker {self.worker} on {self.starts[0].get('host')}"
		number = self.starts[0]["attempt"] if self.starts else "?"
		return f"attempt {number}{where} (token {self.token})"


class Ledgers:
	"""All ledgers in a folder."""

	def __init__(self, folder, growing):
		self.begun = {}  # (task, token) -> Begun
		self.submits = {}  # name -> time of its first submit
		self.given = {}  # name -> the line of its first submit
		self.acks = {}  # name -> its ack lines
		self.cancels = {}  # task -> time of its first cancel call
		self.cancelled = []  # lines
		self.seen = []
		self.batches = []  # lines of batches whose opening was acknowledged
		self.by_sql, self.rolled_back = set(), set()  # names of tasks submitted by SQL, and of those rolled back
		self.schedules = []  # lines of schedules and their runs
		self.received = None  # number of a callback -> how often it was received; None: there was no receiver
		self.torn = 0
		try:
			names = sorted(os.listdir(folder))
		except OSError as error:
			raise Undecidable(f"the ledgers: {error}") from error
		names = [name for name in names if name.endswith((".handler", ".submit", ".received"))]
		if not names:
			raise Undecidable(f"there are no ledgers in {folder}")
		for name in names:
			self.read(os.path.join(folder, name), growing)

	def read(self, path, growing):
		kind = path.rsplit(".", 1)[1]
		take = {"handler": self.take_handler, "submit": self.take_submit, "received": self.take_received}[kind]
		if kind == "received" and self.received is None:
			self.received = {}
		with open(path, encoding="utf-8", errors="replace") as file:
			for number, line in enumerate(file, 1):
				if growing and not line.endswith("\n"):
					break
				try:
					take(json.loads(line))
				except (ValueError, KeyError, TypeError):
					self.take_torn(take, line, f"{path}:{number}")

	def take_torn(self, take, line, where):
		"""Parses a torn line. A process killed in the middle of write(2) may leave the beginning of a line, and the
		next line follows it directly."""
		pieces = [piece for piece in re.split(r'(?=\{"ev")', line) if piece]
		for piece in pieces:
			try:
				take(json.loads(piece))
			except (ValueError, KeyError, TypeError) as error:
				if not piece.startswith('{"') or piece.rstrip().endswith("}") or "handler" not in where:
					raise Undecidable(f"{where}: not a ledger's line: {line.strip()[:200]}") from error
				self.torn += 1

	def take_handler(self, line):
		key = (line["task"], line["token"])
		if line["ev"] not in ("start", "alive", "told", "end"):
			raise KeyError(line["ev"])
		if key not in self.begun:
			self.begun[key] = Begun(*key)
		self.begun[key].add(line)

	def take_submit(self, line):
		event = line["ev"]
		if event == "submit":
			self.submits.setdefault(line["name"], line["t"])
			self.given.setdefault(line["name"], line)
			if line.get("sql"):
				self.by_sql.add(line["name"])
		elif event == "rolled_back":
			self.rolled_back.add(line["name"])
		elif event == "ack":
			line["id"] += 0
			self.acks.setdefault(line["name"], []).append(line)
		elif event == "cancel":
			self.cancels.setdefault(line["id"], line["t"])
		elif event == "cancelled":
			self.cancelled.append(line)
		elif event == "seen":
			self.seen.append(line)
		elif event == "batch":
			line["id"] += 0
			self.batches.append(line)
		elif event == "refused":
			line["name"] += ""
		elif event == "closed":
			line["id"] += 0
		elif event in ("schedule", "schedule_run"):
			line["name"] += ""
			self.schedules.append(line)
		else:
			raise KeyError(event)

	def take_received(self, line):
		number = line["id"].removeprefix("cb_")
		self.received[number] = self.received.get(number, 0) + 1


US = "(extract(epoch from {0}) * 1000000)::bigint"
NAME = "split_part(split_part(details, E'\\n', 1), ' ', 1)"

QUERIES = {
	"tasks": f"""select id, type, queue, {NAME} as name, status, attempt, max_attempts, worker_id, assignment_id, key,
		{US.format('last_updated')} as version, {US.format('created')} as created,
		cancel_requested_at is not null as cancel_requested, batch_id,
		case when details like '{{"event"%' then details end as told,
		source, pipeline_id, stage, step, case when pipeline_id is not null then details end as details,
		extract(epoch from clock_timestamp() - expiry)::float8 as expired_s
		from reeve.tasks""",
	"history": f"""select task_id as id, type, queue, {NAME} as name, status, attempt, max_attempts, worker_id,
		assignment_id, key, {US.format('token')} as token, by_report, result, last_error, error_code,
		{US.format('last_updated')} as version, {US.format('created')} as created, batch_id,
		case when details like '{{"event"%' then details end as told,
		source, pipeline_id, stage, step, case when pipeline_id is not null then details end as details
		from reeve.task_history""",
	"attempts": f"""select task_id as id, {US.format('token')} as token, attempt, worker_id, assignment_id, outcome,
		status, by_report, error, error_code, {US.format('last_updated')} as version,
		stage, type, details, case when stage is not null then result end as result
		from reeve.task_attempts""",
	"events": f"""select id, task_id, {US.format('version')} as version, event, worker_id, actor, note
		from reeve.task_events order by id""",
	"audit": f"""select task_id as id, {US.format('version')} as version, place, event, worker_id, attempt
		from reeve.audit_log where task_id is not null order by task_id, audit_log.version, place""",
	"assignments": "select id, worker_id, fetch_id, task_ids, open, closed_at is not null as closed from reeve.assignments",
	"requests": "select kind, task_ids from reeve.requests",
	"keys": "select queue, key, task_id, keep_ms from reeve.keys",
	"workers": """select id, name, lost, extract(epoch from clock_timestamp() - gone_at)::float8 as gone_s
		from reeve.workers""",
	"batches": f"""select id, name, queue, implicit, phase, submitted, pending, completed, failed, callback_url, callback_tasks,
		callback_type, entry_type, exit_type, entry_id, exit_id, closed_at is not null as closed,
		started_at is not null as started, {US.format('ended_at')} as ended_at from reeve.batches""",
	"callbacks": "select id, batch_id, task_id, event, state, attempts, last_error from reeve.callbacks",
	"pipelines": "select id, name, stages, max_steps from reeve.pipelines",
	"schedules": f"""select id, name, cron, every_ms, {US.format('start_at')} as start, spec ->> 'key' as key, queue_action,
		action_queue, catch_up, max_catch_up, concurrency_policy, paused, {US.format('next_at')} as next, {US.format('updated')} as updated
		from reeve.schedules""",
	"schedule_runs": f"""select id, schedule_id, {US.format('scheduled_at')} as scheduled, {US.format('at')} as at, outcome, task_id,
		actor, note from reeve.schedule_runs order by schedule_id, scheduled_at, id""",
	"schedule_events": f"""select schedule_id, schedule, {US.format('at')} as at, event, note
		from reeve.schedule_events order by id""",
	"queue_events": "select queue, event, actor from reeve.queue_events",
	"counts": COUNTS,
	"live_counts": LIVE,
	"worker_events": "select worker_id, event from reeve.worker_events order by id",
}


ORDERS = "select name, task_id from public.fault_orders"


def find_psql():
	folder = os.environ.get("REEVE_TEST_PG_BIN")
	if folder and os.access(os.path.join(folder, "psql"), os.X_OK):
		return os.path.join(folder, "psql")
	found = shutil.which("psql")
	if not found:
		raise Undecidable("psql is not in PATH, and REEVE_TEST_PG_BIN does not name its folder")
	return found


class Tables:
	"""The tables at one moment: everything is read in one snapshot."""

	def __init__(self, database, with_orders):
		queries = {**QUERIES, "orders": ORDERS} if with_orders else QUERIES
		self.rows = {name: [] for name in queries}
		script = ["begin isolation level repeatable read read only;"]
		for name, query in queries.items():
			script.append(f"select '{name}', row_to_json(r) from ({query}) r;")
		script.append("commit;")
		command = [find_psql(), "-XAtq", "-F", "|", "-v", "ON_ERROR_STOP=1", "-d", database, "-f", "-"]
		done = subprocess.run(command, input="\n".join(script), capture_output=True, text=True, check=False)
		if done.returncode != 0:
			raise Undecidable(f"the tables cannot be read: {done.stderr.strip()}")
		for line in done.stdout.split("\n"):
			if line:
				name, row = line.split("|", 1)
				self.rows[name].append(json.loads(row))
		# Added to a monotonic time, it gives the database's time, if that is this machine's clock and it was not set.
		self.clock_offset = (time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) // 1000

	def __getattr__(self, name):
		return self.rows[name]
