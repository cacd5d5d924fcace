"""The rules for schedules: each scheduled time has one run, no time is left out, and the task of a run exists once.

Scheduled times follow from the definition: start + k × interval, or full minutes for the cron expression of the fault
tests. A schedule is planned again when it is resumed, or edited to fire at other times. Between two such moments (a
stretch) its firings have no gap: one run, for the last of several missed times, says how many there were.
"""

import re
from datetime import datetime, timezone

CRON = {"* * * * *": 60_000}
MISSED = re.compile(r"^(\d+) were missed, from (\S+) on$")
NEW_PLAN = ("cron", "every_ms", "manual", "zone", "start_us")
LATE_US = 5_000_000  # the maximum delay of the last firing before a pause


class Schedule:
	def __init__(self, f, row):
		self.row, self.id, self.name = row, row["id"], row["name"]
		self.every = row["every_ms"] or CRON.get(row["cron"])
		self.start = row["start"] if row["every_ms"] else 0
		self.runs = [run for run in f.tables.schedule_runs if run["schedule_id"] == self.id]
		self.ticks = sorted((run for run in self.runs if run["scheduled"] is not None), key=lambda run: run["scheduled"])
		self.events = [e for e in f.tables.schedule_events if e["schedule_id"] == self.id]
		lines = [line for line in f.before.schedules if line["name"] == self.name]
		# All its intervals. Those before and after edits are in the ledger.
		self.intervals = {self.every} | {line["every_ms"] for line in lines if line.get("every_ms")}

	def __str__(self):
		return f"schedule {self.name}"

	def stretches(self):
		"""Returns the firings between two moments at which it was planned again: [(since or None, [firings])]."""
		moments = [e["at"] for e in self.events if e["event"] == "schedule_resumed" or e["event"] == "schedule_edited" and
			any(word in NEW_PLAN for word in re.split(", ?", e["note"]))]
		found, ticks = [], self.ticks
		for since, until in zip([None, *moments], [*moments, None]):
			# By the time of the firing, under the row's lock: a scheduled time may pass while it is planned again.
			these = [tick for tick in ticks if until is None or tick["at"] <= until]
			ticks = [tick for tick in ticks if until is not None and tick["at"] > until]
			found.append((since, these))
		return found


def schedules_of(f):
	if not hasattr(f, "schedules"):
		f.schedules = [Schedule(f, row) for row in f.tables.schedules]
	return f.schedules


def moment(us):
	return "nothing" if us is None else datetime.fromtimestamp(us / 1e6, timezone.utc).strftime("%H:%M:%S.%f")


def key_time(us):
	"""Returns a scheduled time in the format of keys."""
	text = datetime.fromtimestamp(us // 1_000_000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
	return text + (f".{us % 1_000_000:06d}".rstrip("0") if us % 1_000_000 else "") + "Z"


def schedules_are_there(f):
	known = {row["name"] for row in f.tables.schedules} | \
		{e["schedule"] for e in f.tables.schedule_events if e["event"] == "schedule_removed"}
	runs = {run["id"]: run for run in f.tables.schedule_runs}
	for line in f.before.schedules:
		if line["name"] not in known:
			f.add("I1 firing-lost", f"schedule {line['name']} was acknowledged; no table has it")
		if line["ev"] == "schedule_run" and line["run"] not in runs:
			f.add("I1 firing-lost", f"run {line['run']} of schedule {line['name']}, a manual one, was acknowledged; no table has it")
		elif line["ev"] == "schedule_run" and runs[line["run"]]["task_id"] != line.get("task"):
			f.add("I1 firing-lost", f"run {line['run']} of schedule {line['name']}, a manual one, was acknowledged with task "
				f"{line.get('task')}, and has {runs[line['run']]['task_id']}")


def ticks_are_once(f):
	for schedule in schedules_of(f):
		for tick, following in zip(schedule.ticks, schedule.ticks[1:]):
			if tick["scheduled"] == following["scheduled"]:
				f.add("I1 firing-twice", f"{schedule} has two runs, {tick['id']} and {following['id']}, for {moment(tick['scheduled'])}")


def ticks_follow(f):
	"""Scheduled times are on the definition's grid, and no time of the grid is missing within a stretch."""
	for schedule in schedules_of(f):
		if not schedule.every:
			for tick in schedule.ticks:
				f.add("I3 firing-off", f"{schedule} is manual only, and has run {tick['id']} planned for {moment(tick['scheduled'])}")
			continue
		for since, ticks in schedule.stretches():
			grid = grid_of(schedule, ticks)
			if grid is None:
				off = [tick for tick in ticks if (tick["scheduled"] - schedule.start) % (schedule.every * 1000) != 0] or ticks
				f.add("I3 firing-off", f"{schedule} has run {off[0]['id']} planned for {moment(off[0]['scheduled'])}; it begins at "
					f"{moment(schedule.start)} and comes every {schedule.every} ms")
				continue
			expected = None  # the next scheduled time
			for tick in ticks:
				begins = first_of(tick, grid)
				if begins is None:
					f.add("I6 firing-outcome", f"{schedule}: run {tick['id']} says that {tick['note']!r}, up to {moment(tick['scheduled'])}")
				elif expected is not None and begins > expected:
					f.add("I1 firing-lost", f"{schedule} has nothing for {moment(expected)} and {(begins - expected) // grid - 1} more, until "
						f"{moment(begins)}")
				elif expected is None and since is not None and begins > since + grid:
					f.add("I1 firing-lost", f"{schedule} was rescheduled at {moment(since)}; the first firing after that is {moment(begins)}")
				expected = tick["scheduled"] + grid


def first_of(tick, grid):
	"""Returns the first scheduled time that a run stands for; None if its note is impossible."""
	if tick["outcome"] != "missed" or not tick["note"]:
		return tick["scheduled"]
	match = MISSED.match(tick["note"])
	if not match:
		return None
	first = tick["scheduled"] - (int(match[1]) - 1) * grid
	return first if match[2] == key_time(first) else None


def grid_of(schedule, ticks):
	"""Returns the longest interval, in µs, that fits all firings; None if there is none."""
	fits = [every * 1000 for every in schedule.intervals if every and
		all((tick["scheduled"] - schedule.start) % (every * 1000) == 0 for tick in ticks)]
	return fits and max(fits) or None


def ticks_are_in_time(f):
	"""A schedule that is paused at the end has fired for every time that was due before. (Not checked with overlap
	`queue`, where a firing may have to wait.)"""
	for schedule in schedules_of(f):
		row = schedule.row
		if not schedule.every or not row["paused"] or row["next"] is None:
			continue
		late = row["updated"] - row["next"]
		if late > LATE_US and row["concurrency_policy"] != "queue":
			f.add("I4 firing-late", f"{schedule} was paused at {moment(row['updated'])}, and its tick of {moment(row['next'])} had not "
				"been made")


def ticks_come_in_order(f):
	for schedule in schedules_of(f):
		for tick, following in zip(schedule.ticks, schedule.ticks[1:]):
			if tick["id"] > following["id"]:
				f.add("I6 firing-order", f"{schedule}: the tick of {moment(tick['scheduled'])} was made after that of "
					f"{moment(following['scheduled'])}")
		for tick in schedule.ticks:
			if tick["at"] < tick["scheduled"]:
				f.add("I6 firing-order", f"{schedule}: the tick of {moment(tick['scheduled'])} was made at {moment(tick['at'])}")


def outcomes_fit(f):
	for run in f.tables.schedule_runs:
		makes = run["outcome"] in ("submitted", "existing")
		if makes != (run["task_id"] is not None):
			f.add("I6 firing-outcome", f"run {run['id']} of schedule {run['schedule_id']} is {run['outcome']}, with task {run['task_id']}")
	for schedule in schedules_of(f):
		for run in schedule.runs:
			fits = {"overlapped": schedule.row["concurrency_policy"] == "forbid" or schedule.events, "missed": schedule.row["catch_up"] != "all",
				"acted": schedule.row["queue_action"] is not None}
			if run["outcome"] == "refused" or not fits.get(run["outcome"], True):
				f.add("I6 firing-outcome", f"{schedule}: run {run['id']} is {run['outcome']} ({run['note']}); missed runs are "
					f"{schedule.row['catch_up']}, the concurrency policy is {schedule.row['concurrency_policy']}")


def tasks_are_their_runs(f):
	"""Each run's task exists once, with the key of its time; each task of a schedule belongs to a run."""
	made = {}  # task -> runs that submitted it
	for run in f.tables.schedule_runs:
		if run["outcome"] == "submitted":
			made.setdefault(run["task_id"], []).append(run)
		if run["task_id"] is not None and run["task_id"] not in f.by_id:
			f.add("I1 firing-lost", f"run {run['id']} of schedule {run['schedule_id']} made task {run['task_id']}; no table has it")
	for task, runs in made.items():
		if len(runs) > 1:
			f.add("I1 firing-twice", f"task {task} is that of the runs {[run['id'] for run in runs]}")
	for schedule in schedules_of(f):
		for run in schedule.ticks:
			for row in f.by_id.get(run["task_id"], []):
				key = wanted_key(schedule, run["scheduled"])
				if row["key"] != key:
					f.add("I3 firing-key", f"{schedule}: the task of {moment(run['scheduled'])}, {f.title(row['id'])}, has the key {row['key']}; "
						f"it should be {key}")
				if run["outcome"] == "submitted" and row["source"] != f"schedule {schedule.name}":
					f.add("I3 firing-key", f"{schedule}: the task of {moment(run['scheduled'])}, {f.title(row['id'])}, is of {row['source']}")
	for task, rows in f.by_id.items():
		if rows[0]["source"].startswith("schedule ") and task not in made:
			f.add("I1 firing-made-of-nothing", f"{f.title(task)} is of {rows[0]['source']} ({rows[0]['key']}); no run tells of it")


def wanted_key(schedule, planned):
	template = schedule.row["key"] or "{name}:{time}"
	date = datetime.fromtimestamp(planned // 1_000_000, timezone.utc).strftime("%Y-%m-%d")
	return template.replace("{date}", date).replace("{time}", key_time(planned)).replace("{name}", schedule.name)


def runs_do_not_overlap(f):
	"""Unless overlap is allowed, a firing's task is created after the previous firing's task has ended."""
	for schedule in schedules_of(f):
		if schedule.row["concurrency_policy"] == "allow":
			continue
		before = None  # the previous task and its end
		for tick in schedule.ticks:
			row = (f.by_id.get(tick["task_id"]) or [None])[0] if tick["outcome"] == "submitted" else None
			if row is None:
				continue
			if before is not None and (before[1] is None or row["created"] < before[1]):
				ended = f"ended at {moment(before[1])}" if before[1] else "has not ended"
				f.add("I2 firing-overlap", f"{schedule}, whose runs do not overlap: {f.title(row['id'])} was made at "
					f"{moment(row['created'])}; {f.title(before[0])} {ended}")
			before = (row["id"], row["version"] if "token" in row else None)


def queues_are_acted_on_once(f):
	for schedule in schedules_of(f):
		acted = sum(run["outcome"] == "acted" for run in schedule.runs)
		events = sum(e["actor"] == f"schedule {schedule.name}" for e in f.tables.queue_events)
		if events > acted:
			f.add("I1 firing-twice", f"{schedule} acted {acted} times by its runs, and {events} times by the events of "
				f"{schedule.row['action_queue']}")


SCHEDULE_RULES = (
	schedules_are_there, ticks_are_once, ticks_follow, ticks_are_in_time, ticks_come_in_order, outcomes_fit, tasks_are_their_runs,
	runs_do_not_overlap, queues_are_acted_on_once,
)
