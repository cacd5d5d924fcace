"""Follows the ledgers during a run: which attempts run where, and how long probes take."""

import json
import os
import re
import time

PROBE = "p"  # the submitter whose tasks are the probes
ALIVE = re.compile(rb'"ev":"alive","task":(\d+),"token":(\d+),"t":(\d+)')
DEAD_US = 500_000  # a handler without a sign of life for this long was killed


def now_us():
	return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def submitter(task):
	return task.rsplit("-", 1)[0]


class Watch:
	def __init__(self, folder, time):
		self.folder, self.time = folder, time
		self.places = {}  # file -> the offset read so far
		self.running = {}  # (task, token) -> the line of its start, until its end
		self.signs = {}  # (task, token) -> the last sign of life
		self.starts = {}  # task -> [(token, time)]
		self.ends = {}  # (task, token) -> time
		# Probe -> time. Ledgers are read in no order; when a probe's submit and completion are known …
		self.submitted, self.begun, self.completed = {}, {}, {}
		self.served = []  # … it moves here: (submitter, submitted, first begun, completed)
		self.names = {}  # (task, token) -> probe
		self.probes = {PROBE}  # submitters whose tasks are probes

	def poll(self):
		for name in os.listdir(self.folder):
			if name.endswith(".handler") or name.endswith(".submit") and name[:-len(".submit")] in self.probes:
				self.read(os.path.join(self.folder, name))

	def read(self, path):
		with open(path, "rb") as file:
			file.seek(self.places.get(path, 0))
			text = file.read()
		text = text[: text.rfind(b"\n") + 1]
		self.places[path] = self.places.get(path, 0) + len(text)
		for line in text.splitlines():
			alive = ALIVE.search(line)
			if alive:
				self.signs[(int(alive[1]), int(alive[2]))] = int(alive[3])
				continue
			try:
				self.take(json.loads(line))
			except ValueError:
				pass  # torn; the checker decides about it

	def take(self, line):
		event = line["ev"]
		if event == "submit":
			self.submitted[line["name"]] = line["t"]
			self.serve(line["name"])
		elif event == "refused":
			self.submitted.pop(line["name"], None)
		elif event == "start":
			key = (line["task"], line["token"])
			self.running[key] = line
			self.signs[key] = line["t"]
			self.starts.setdefault(line["task"], []).append((line["token"], line["t"]))
			if submitter(line["name"]) in self.probes:
				self.names[key] = line["name"]
				self.begun.setdefault(line["name"], line["t"])
		elif event == "end":
			key = (line["task"], line["token"])
			self.running.pop(key, None)
			self.signs.pop(key, None)
			self.ends[key] = line["t"]
			probe = self.names.pop(key, None)
			if line["outcome"] == "completed" and probe:
				self.completed[probe] = line["t"]
				self.serve(probe)

	def serve(self, probe):
		if probe in self.submitted and probe in self.completed:
			self.served.append((submitter(probe), self.submitted.pop(probe), self.begun.pop(probe), self.completed.pop(probe)))

	def running_of(self, life):
		"""Returns the attempts that have begun at that worker, have not ended, and are alive: {(task, token)}."""
		self.running = {key: line for key, line in self.running.items() if self.signs[key] > now_us() - DEAD_US}
		return {key for key, line in self.running.items() if line["worker"] == life}

	def waiting(self, until):
		"""Returns the submit times of the probes that were submitted until `until` and have not completed."""
		return [t for t in self.submitted.values() if t <= until]

	def submitted_since(self, since):
		"""Returns the number of probes submitted since then."""
		return sum(t >= since for t in self.submitted.values()) + sum(t >= since for _, t, *_ in self.served)

	def service_us(self, since, until, base):
		"""Returns the longest own time, in µs, of a probe submitted between the two, measured from `base` if later."""
		return max((max(0, self.time.between(max(t, base), done)) for _, t, _, done in self.served if since <= t <= until), default=0)

	def waits_us(self, name):
		"""Returns the own times, in µs, from submit to start of the completed probes of this submitter."""
		return [self.time.between(t, begun) for who, t, begun, _ in self.served if who == name]

	def taken_up(self, key):
		"""Returns when an interrupted attempt ended after all, or its task began again; None if neither has."""
		task, token = key
		times = [t for later, t in self.starts.get(task, []) if later > token]
		if key in self.ends:
			times.append(self.ends[key])
		return min(times, default=None)
