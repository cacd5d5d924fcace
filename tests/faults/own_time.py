"""The time that a run had: wall time less the part that other processes took of the machine.

The limits of recovery are for a machine that does nothing else. While others take half of it, a second counts as half a
second. While others take part of it and nothing is idle, the run may get less than it needs: its tasks then queue up, and
no factor tells how much longer they wait for that. Such time does not count, and neither does the time after it until the
machine is idle again, in which the run catches up; from IDLE on the idle part is enough. What others take up to NOISE of
the machine counts as nothing: so much is the error of the kernel's figures.
"""

import bisect
import os

EVERY_US = 1_000_000
NOISE = 0.1
IDLE = 0.1


class OwnTime:
	def __init__(self):
		self.wall, self.own = [], []  # of each sample, in µs
		self.share = 1  # between the last two samples
		self.behind = False  # others have taken time that the run may have needed, and nothing has been idle since
		self.last = (0, 0, 0)
		self.processes = {}  # those of the run: {(pid, start): (parent, ticks of it and of its children that it has waited for)}
		self.ended = 0  # ticks of its processes that none of it has waited for

	def add(self, now, machine, busy, run):
		"""Takes a sample: the time, and the ticks so far of the machine, of all its processes, and of the run's."""
		machine_ticks, busy_ticks, run_ticks = (new - old for new, old in zip((machine, busy, run), self.last))
		if self.wall:
			others = max(0, busy_ticks - max(0, run_ticks)) / max(1, machine_ticks)
			idle = (machine_ticks - busy_ticks) / max(1, machine_ticks)
			others = others if others > NOISE else 0
			self.behind = idle < IDLE and (self.behind or others > 0)
			self.share = (1 - min(1, others)) * (max(0, idle / IDLE) if self.behind else 1)
		self.own.append(self.at(now))
		self.wall.append(now)
		self.last = (machine, busy, run)

	def at(self, time):
		"""Returns the run's own time at a time. After the last sample it grows as before it."""
		i = bisect.bisect_right(self.wall, time)
		if i == 0:
			return time
		share = self.share if i == len(self.wall) else (self.own[i] - self.own[i - 1]) / (self.wall[i] - self.wall[i - 1])
		return self.own[i - 1] + (time - self.wall[i - 1]) * share

	def between(self, begin, end):
		return self.at(end) - self.at(begin)

	def sample(self, now):
		"""Measures, if the last time was EVERY_US ago."""
		if self.wall and now < self.wall[-1] + EVERY_US:
			return
		with open("/proc/stat", encoding="ascii") as file:
			user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
		busy = user + nice + system + steal
		self.add(now, busy + idle + iowait + irq + softirq, busy, self.run_ticks())

	def run_ticks(self):
		rows, before = [], self.processes
		for pid in filter(str.isdigit, os.listdir("/proc")):
			try:
				with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
					fields = file.read().rsplit(")", 1)[1].split()
			except OSError:
				continue
			rows.append((int(fields[19]), int(pid), int(fields[1]), sum(map(int, fields[11:15]))))
		self.processes, pids = {}, {os.getpid()}
		for start, pid, parent, ticks in sorted(rows):  # parents first
			if pid in pids or parent in pids or (pid, start) in before:
				pids.add(pid)
				self.processes[(pid, start)] = (parent, ticks)
		self.ended += sum(ticks for key, (parent, ticks) in before.items() if key not in self.processes and parent not in pids)
		return self.ended + sum(ticks for _, ticks in self.processes.values())
