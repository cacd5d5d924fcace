#!/usr/bin/env python3
"""Schedules for the fault tests. Adds them by the command `reeve`; then pauses, resumes, edits and manually runs random
ones until SIGTERM. Then it pauses all and exits. Its ledger is FOLDER/NAME.submit.

	fault_schedules.py --bin FOLDER --managers URL[,URL] --ledger FOLDER --name NAME [--seed N] [--pause SECONDS] [--changes N]
	                   [--pipeline NAME] [--gate QUEUE]

  --pause S    average time between two changes (1.5)
  --changes N  exit after this number of changes
  --pipeline   the pipeline of one schedule's tasks. It is defined first (plans.py), and now and then again with its
               stages in another order
  --gate       the queue that two schedules pause and resume in turn

A failed call is repeated until it succeeds. Exit codes: 0: every call succeeded; 1: a call was refused; 3: after
SIGTERM a call was not answered for a minute.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from plans import pipeline  # noqa: E402

# name: (interval in ms or None, options of `reeve schedule add`). Tasks take less time than the interval, except in
# schedules whose runs overlap on purpose.
TASKS = ("--max-attempts", "20", "--timeout", "8s", "--backoff", "exp:100ms:1s")
ALL = ("--catch-up", "all:1000")
SCHEDULES = {
	"rapid": (200, ("--concurrency-policy", "allow", *ALL, "fault-function", "rapid run=10", *TASKS)),
	"queued": (1000, ("--concurrency-policy", "queue", *ALL, "fault-function", "queued run=60 fail=1", *TASKS)),
	"skipped": (1000, ("--concurrency-policy", "forbid", *ALL, "fault-function", "skipped run=1300", *TASKS)),
	"latest": (700, ("--concurrency-policy", "allow", "--catch-up", "one", "fault-function", "latest run=20", *TASKS)),
	"dropped": (400, ("--concurrency-policy", "forbid", "--catch-up", "skip", "fault-exec", "dropped run=20", *TASKS)),
	"slow": (2000, ("--concurrency-policy", "queue", *ALL, "fault-exec", "slow run=900", *TASKS)),
	"edited": (300, ("--concurrency-policy", "allow", *ALL, "fault-function", "edited run=5", *TASKS)),
	"minutely": (None, ("--cron", "* * * * *", "--concurrency-policy", "queue", *ALL, "fault-function", "minutely run=30", *TASKS)),
	"by-hand": (None, ("--manual", "fault-function", "by-hand run=30", *TASKS)),
}
EVERY = (300, 700)  # intervals of `edited`
# The database's clock was set forward or back between the call of the command for the time and its change.
CLOCK_JUMPED = ("request id is more than a day old", "request id is from the future")
WAIT_S = 10


class Schedules:
	def __init__(self, options):
		self.options, self.rng = options, random.Random(options.seed)
		self.stopping = threading.Event()
		self.until = None  # until when failed calls are repeated, after the stop
		self.refused = self.again = self.changes = 0
		self.paused, self.every = set(), EVERY[0]
		self.schedules = dict(SCHEDULES)
		if options.pipeline:
			self.schedules["piped"] = (900, ("--concurrency-policy", "allow", *ALL, "--pipeline", options.pipeline, "piped plan=5/9f1>d/3"))
		if options.gate:
			start = int(time.time()) + 4  # not in the past: its times since then would be made up for
			for word, after in (("pause", 0), ("resume", 1)):
				at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start + after))
				self.schedules[f"gate-{word}"] = (4000, ("--start", at, *ALL, "--concurrency-policy", "allow", "--queue-action",
					word, "--queue", options.gate))
		self.ledger = os.open(f"{options.ledger}/{options.name}.submit", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

	def note(self, **line):
		line["t"] = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
		os.write(self.ledger, (json.dumps(line) + "\n").encode())

	def reeve(self, *words, fine=()):
		"""Runs the command until it succeeds or fails with an error in `fine`. Returns its output; None if refused."""
		while True:
			try:
				done = subprocess.run([f"{self.options.bin}/reeve", *words], capture_output=True, text=True, check=False, timeout=WAIT_S,
					env={**os.environ, "REEVE_MANAGER": self.options.managers}, start_new_session=True)
				if done.returncode == 0 or any(text in done.stderr for text in fine):
					return done.stdout
				if done.returncode != 3 and not any(text in done.stderr for text in CLOCK_JUMPED):  # 3: no answer, or not now
					print(f"{self.options.name}: reeve {' '.join(words)}: {done.returncode}: {done.stderr.strip()}", flush=True)
					self.refused += 1
					return None
			except subprocess.TimeoutExpired:
				pass
			if self.until and time.monotonic() > self.until:
				sys.exit(3)
			self.again += 1
			time.sleep(0.2)

	def define(self, order):
		with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
			json.dump(pipeline(self.options.pipeline, order), file)
			file.flush()
			self.reeve("pipeline", "define", file.name)

	def add_all(self):
		if self.options.pipeline:
			self.define("abcd")
		if self.options.gate:
			self.reeve("queue", "set", self.options.gate, "--retry-limit", "19")  # creates it
		for name, (every, rest) in self.schedules.items():
			when = ("--every", f"{every}ms") if every else ()
			self.reeve("schedule", "add", name, *when, *rest, fine=("already",))
			self.note(ev="schedule", name=name, every_ms=every)

	def change(self):
		name = self.rng.choice(sorted(self.schedules))
		what = self.rng.choice(("pause", "resume", "resume", "edit", "run", "define"))
		if what == "pause" and len(self.paused) < 3:
			self.control(name, "pause")
		elif what == "resume" and self.paused:
			self.control(self.rng.choice(sorted(self.paused)), "resume")
		elif what == "edit":
			self.edit()
		elif what == "run" and not name.startswith("gate"):
			self.run_manually(name)
		elif what == "define" and self.options.pipeline:
			self.define(self.rng.choice(("abcd", "acbd", "bca")))

	def control(self, name, word):
		if self.reeve("schedule", word, name) is not None:
			self.note(ev="schedule", name=name, what=word)
			(self.paused.add if word == "pause" else self.paused.discard)(name)

	def edit(self):
		if self.rng.random() < 0.5:
			self.every = EVERY[self.every == EVERY[0]]
			self.note(ev="schedule", name="edited", what="edit", every_ms=self.every)
			self.reeve("schedule", "edit", "edited", "--every", f"{self.every}ms")
		else:
			name = self.rng.choice(sorted(set(self.schedules) - {"gate-pause", "gate-resume"}))
			self.reeve("schedule", "edit", name, "--priority", str(self.rng.randint(0, 3)))
			self.note(ev="schedule", name=name, what="edit")

	def run_manually(self, name):
		said = self.reeve("schedule", "run", name, "--json")
		if said:
			run = json.loads(said)
			run = run.get("run", run)
			self.note(ev="schedule_run", name=name, run=int(run["id"]), task=int(run["task_id"]))

	def run(self):
		self.add_all()
		print(f"{self.options.name}: added {len(self.schedules)} schedules", flush=True)
		while not self.stopping.wait(self.rng.uniform(0, 2 * self.options.pause)):
			self.change()
			self.changes += 1
			if self.options.changes and self.changes >= self.options.changes:
				break
		self.until = time.monotonic() + 60
		for name in sorted(set(self.schedules) - self.paused):
			self.control(name, "pause")
		if self.options.gate:
			self.reeve("queue", "resume", self.options.gate, fine=("no queue",))
		print(f"{self.options.name}: {self.changes} changes; {self.again} calls made again, {self.refused} refused", flush=True)
		return 1 if self.refused else 0


def main():
	parser = argparse.ArgumentParser(usage=__doc__)
	for name in ("bin", "managers", "ledger", "name"):
		parser.add_argument(f"--{name}", required=True)
	parser.add_argument("--seed", type=int, default=1)
	parser.add_argument("--pause", type=float, default=1.5)
	parser.add_argument("--changes", type=int, default=0)
	parser.add_argument("--pipeline")
	parser.add_argument("--gate")
	schedules = Schedules(parser.parse_args())

	def stop(*_):
		schedules.stopping.set()
		schedules.until = schedules.until or time.monotonic() + 60

	signal.signal(signal.SIGTERM, stop)
	signal.signal(signal.SIGINT, stop)
	return schedules.run()


sys.exit(main())
