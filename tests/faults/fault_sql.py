#!/usr/bin/env python3
"""A submitter for the fault tests that submits by SQL, in its own transactions. Its ledger is FOLDER/NAME.submit.

	fault_sql.py --database CONNINFO --ledger FOLDER --name NAME [--seed N] [--rate TRANSACTIONS-A-SECOND] [--count N]
	             [--connections N] [--long SECONDS] [--types TYPE,…] [--pipeline NAME]

Each transaction submits one to four tasks by reeve.submit() and inserts a row for each into public.fault_orders (name,
task_id), a table that must exist. Of ten transactions seven are committed, one is rolled back, one is committed after
a savepoint was rolled back, and one stays open for up to --long seconds (20) before it is committed. Some tasks have a
key and are submitted twice in their transaction, some have a new queue, some belong to the pipeline.

It continues through outages until SIGTERM, or --count transactions, and then commits open transactions. Exit codes: 0:
PostgreSQL reported no error except that it was stopping or unavailable; 1: it refused something.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from facts import find_psql, print_of  # noqa: E402
from plans import draw_plan  # noqa: E402

AWAY = ("the database system is", "terminating connection", "server closed the connection", "connection to server",
	"connection refused", "Connection refused", "No such file or directory", "Is the server running", "could not receive data", "SSL", "FATAL")
MARK = "--done--"


class Gone(Exception):
	"""The connection broke. Its argument is the list of lines received before."""


class Session:
	"""A psql process that executes statements and returns their output."""

	def __init__(self, database):
		self.psql = subprocess.Popen([find_psql(), "-XAt", "-d", database], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
			stderr=subprocess.STDOUT, text=True, bufsize=1, start_new_session=True)

	def tell(self, statement):
		"""Executes a statement. Returns the lines of its output, command tags included."""
		try:
			self.psql.stdin.write(f"{statement}\n\\echo {MARK}\n")
			self.psql.stdin.flush()
		except OSError as error:
			raise Gone([]) from error
		lines = []
		for line in self.psql.stdout:
			if line.rstrip("\n") == MARK:
				return lines
			lines.append(line.rstrip("\n"))
		raise Gone(lines)

	def end(self):
		self.psql.kill()
		self.psql.wait()
		try:
			self.psql.stdin.close()
		except OSError:  # unsent data
			pass


def text(value):
	return "'" + value.replace("'", "''") + "'"


class Submitter:
	def __init__(self, options):
		self.options = options
		self.stopping = threading.Event()
		self.lock = threading.Lock()
		self.numbers = self.transactions = 0
		self.counts = dict.fromkeys(("committed", "rolled back", "unknown", "tasks"), 0)
		self.refusals = {}
		self.ledger = os.open(f"{options.ledger}/{options.name}.submit", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

	def note(self, **line):
		line["t"] = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
		os.write(self.ledger, (json.dumps(line) + "\n").encode())

	def count(self, what, by=1):
		with self.lock:
			self.counts[what] += by

	def take(self, lines):
		"""Counts the errors among the lines. Returns the ids among them."""
		for line in lines:
			if "ERROR:" in line and not any(word in line for word in (*AWAY, "current transaction is aborted")):
				with self.lock:
					self.refusals[line] = self.refusals.get(line, 0) + 1
		return [int(line) for line in lines if line.isdigit()]

	def next_number(self):
		with self.lock:
			self.numbers += 1
			return self.numbers

	def task(self, rng):
		"""Returns the name of a new task and the statement that submits it."""
		name = f"{self.options.name}-{self.next_number()}"
		words = [f"queue => {text(f'sql.{rng.randrange(10**6)}')}"] if rng.random() < 0.05 else []
		given = {}
		if self.options.pipeline and rng.random() < 0.2:
			details = f"{name} {draw_plan(rng)}"
			words.append(f"pipeline => {text(self.options.pipeline)}")
			given = {"pipeline": self.options.pipeline, "input": print_of(details)}
		else:
			details = f"{name} run={rng.randint(1, 60)} {'fail=1' if rng.random() < 0.1 else ''}"
			words += [f"type => {text(rng.choice(self.options.types))}", "max_attempts => 20", "timeout => '8 s'",
				"backoff => 'exp:100ms:1s'"]
		if rng.random() < 0.1:
			words.append("delay => '1500 ms'")
		if rng.random() < 0.2:
			words.append(f"key => {text(name)}")
		call = f"reeve.submit(details => {text(details)}, priority => {rng.randint(0, 2)}, {', '.join(words)})"
		again = f"select {call};\n" if "key =>" in call and rng.random() < 0.5 else ""
		statement = f"insert into public.fault_orders select {text(name)}, {call} returning task_id;\n{again}"
		self.note(ev="submit", name=name, sql=True, **given)
		return name, statement

	def transaction(self, session, rng):
		"""Runs one transaction. Raises Gone if the connection breaks."""
		fate = rng.choices(("commit", "rollback", "savepoint", "long"), (7, 1, 1, 1))[0]
		tasks = [self.task(rng) for _ in range(rng.randint(1, 4))]
		rest = rng.uniform(1, self.options.long) if fate == "long" else rng.uniform(0, 0.05)
		ids, undone, over = {}, [], False
		self.count("tasks", len(tasks))
		try:
			self.take(session.tell("begin;"))
			for name, statement in tasks:
				if fate == "savepoint" and name == tasks[0][0]:
					self.take(session.tell(f"savepoint here; {statement} rollback to here;"))
					undone.append(name)
					continue
				got = self.take(session.tell(statement))
				ids[name] = got[0] if len(set(got)) == 1 else None
			self.stopping.wait(rest)
			over = fate != "rollback"
			answer = session.tell("commit;" if over else "rollback;")
		except Gone as gone:
			self.take(gone.args[0])
			committed = over and "COMMIT" in gone.args[0]
			if over and not committed:
				self.count("unknown")
				self.undone(undone)
			else:
				self.settle(committed, ids, undone)
			raise
		self.take(answer)
		self.settle("COMMIT" in answer, ids, undone)

	def undone(self, names):
		for name in names:
			self.note(ev="rolled_back", name=name)

	def settle(self, committed, ids, undone):
		self.count("committed" if committed else "rolled back")
		for name, task in ids.items():
			if committed:
				self.note(ev="ack", name=name, id=task, existing=False)
		self.undone(undone if committed else [*undone, *ids])

	def may_go_on(self):
		with self.lock:
			self.transactions += 1
			return not self.stopping.is_set() and (not self.options.count or self.transactions <= self.options.count)

	def run(self, number):
		rng = random.Random(self.options.seed * 1000 + number)
		session = Session(self.options.database)
		while self.may_go_on():
			due = time.monotonic() + self.options.connections / self.options.rate * rng.uniform(0.5, 1.5)
			try:
				self.transaction(session, rng)
			except Gone:
				session.end()
				time.sleep(0.2)
				session = Session(self.options.database)
			self.stopping.wait(max(0, due - time.monotonic()))
		session.end()


def main():
	parser = argparse.ArgumentParser(usage=__doc__)
	for name in ("database", "ledger", "name"):
		parser.add_argument(f"--{name}", required=True)
	parser.add_argument("--seed", type=int, default=1)
	parser.add_argument("--rate", type=float, default=3)
	parser.add_argument("--count", type=int, default=0)
	parser.add_argument("--connections", type=int, default=3)
	parser.add_argument("--long", type=float, default=20)
	parser.add_argument("--types", type=lambda words: words.split(","), default=["fault-function"])
	parser.add_argument("--pipeline")
	submitter = Submitter(parser.parse_args())
	for number in (signal.SIGTERM, signal.SIGINT):
		signal.signal(number, lambda *_: submitter.stopping.set())
	threads = [threading.Thread(target=submitter.run, args=(n,)) for n in range(submitter.options.connections)]
	for thread in threads:
		thread.start()
	for thread in threads:
		while thread.is_alive():
			thread.join(0.2)
	print(f"{submitter.options.name}: " + ", ".join(f"{n} {what}" for what, n in submitter.counts.items()))
	for refusal, times in submitter.refusals.items():
		print(f"{submitter.options.name}: refused {times} times: {refusal}")
	return 1 if submitter.refusals else 0


sys.exit(main())
