"""The rules for batches. Each batch begins once and ends once. Its entry task runs before all its other tasks and its
exit task after them. Its counts match its tasks. Each event is reported once to each receiver.

A task that is retried manually after its batch has ended is no longer counted. No program of the fault tests does that.
"""

import json
from collections import Counter

from facts import FINAL


def told_of(row):
	"""Returns the event of a task that was submitted as a callback, or None."""
	try:
		told = json.loads(row["told"]) if row["told"] else None
	except ValueError:
		return None
	return told if isinstance(told, dict) and "event" in told else None


class Batch:
	def __init__(self, row, rows):
		self.row, self.id = row, row["id"]
		own = (row["entry_id"], row["exit_id"])
		self.members = [r for r in rows if r["batch_id"] == self.id and r["id"] not in own]
		self.entries = [r for r in rows if r["batch_id"] == self.id and row["entry_type"] and r["type"] == row["entry_type"]]
		self.exits = [r for r in rows if r["batch_id"] == self.id and row["exit_type"] and r["type"] == row["exit_type"]]
		self.ended = row["phase"] == "ended"

	def __str__(self):
		return f"batch {self.id} ({self.row['name']}, {self.row['phase']})"


def batches_of(f):
	if not hasattr(f, "batches"):
		rows = {}
		for row in f.tables.tasks + f.tables.history:
			rows.setdefault(row["batch_id"], []).append(row)
		f.batches = [Batch(row, rows.get(row["id"], [])) for row in f.tables.batches]
	return f.batches


def final_status(row):
	return row["status"] if "token" in row and row["status"] in FINAL else None


def batches_are_there(f):
	known = {row["id"]: row for row in f.tables.batches}
	for line in f.before.batches:
		if line["id"] not in known:
			f.add("I1 batch-lost", f"the batch {line['name']} was acknowledged as {line['id']}; no table has it")
	names = {}
	for row in f.tables.batches:
		if not row["implicit"]:
			names.setdefault(row["name"], []).append(row["id"])
	for name, ids in names.items():
		if len(ids) > 1:
			f.add("I1 batch-made-twice", f"the batch {name} was opened as {sorted(ids)}")
	for name, lines in f.before.acks.items():
		for line in lines:
			for row in f.by_id.get(line["id"], []):
				if line.get("batch") and row["batch_id"] != line["batch"]:
					f.add("I1 batch-lost", f"{name} was submitted to batch {line['batch']}, and is in {row['batch_id']}")


def counts_are_right(f):
	for batch in batches_of(f):
		ends = [final_status(row) for row in batch.members]
		got = tuple(batch.row[key] for key in ("submitted", "pending", "completed", "failed"))
		completed = ends.count("completed")
		wanted = (len(ends), ends.count(None), completed, len(ends) - ends.count(None) - completed)
		if got != wanted:
			f.add("I6 batch-counts", f"{batch} counts submitted, pending, completed, failed as {got}; its tasks give {wanted}")


def batches_end_once(f):
	for batch in batches_of(f):
		if batch.ended and any(final_status(row) is None for row in batch.members):
			f.add("I3 batch-ended-early", f"{batch} has ended with tasks that have not")
		if batch.ended != (batch.row["ended_at"] is not None):
			f.add("I3 batch-ended-early", f"{batch} has ended_at {batch.row['ended_at']}")
		for row in batch.members:
			if batch.ended and row["version"] > batch.row["ended_at"]:
				f.add("I3 batch-ended-early", f"{batch} ended before its {f.title(row['id'])}")
		if not f.options.running and (batch.row["closed"] or batch.row["implicit"]) and not batch.ended:
			f.add("I4 batch-not-ended", f"{batch} was closed and all is drained, yet it has not ended")


def entry_and_exit(f):
	for batch in batches_of(f):
		for what, rows, wanted in (("entry", batch.entries, batch.row["entry_type"]), ("exit", batch.exits, batch.row["exit_type"])):
			if len(rows) > 1:
				f.add("I1 batch-made-twice", f"{batch} has {len(rows)} {what} tasks: {sorted(r['id'] for r in rows)}")
			if wanted and batch.ended and batch.row["submitted"] and not rows:
				f.add("I6 batch-event-missing", f"{batch} has ended without its {what} task")
		for entry in batch.entries:
			end = entry["version"] if final_status(entry) else None
			for row in batch.members:
				for attempt in f.chains.get(row["id"], []):
					if end is None or attempt.token < end:
						f.add("I6 batch-order", f"{batch}: {f.title(row['id'])} was claimed before the entry task had ended")
		for leave in batch.exits:
			for row in batch.members:
				if final_status(row) is None or row["version"] > leave["created"]:
					f.add("I6 batch-order", f"{batch}: its exit task was made before {f.title(row['id'])} had ended")


def wanted_events(f, batch, each):
	"""Returns the events that a batch must have reported by now: (event, task or None). `each`: ends of tasks, too."""
	wanted = set()
	if batch.row["started"]:
		wanted.add(("batch_begin", None))
	if batch.ended and batch.row["submitted"]:
		wanted.add(("batch_end", None))
	if each:
		wanted |= {("task_end", row["id"]) for row in batch.members if final_status(row)}
	return wanted


def compare(f, batch, how, got, wanted):
	times = Counter(got)
	for event in sorted(times, key=str):
		if times[event] > 1:
			f.add("I1 batch-told-twice", f"{batch}: {how} of {event[0]} {event[1] or ''} {times[event]} times")
		if event not in wanted:
			f.add("I6 batch-told-wrongly", f"{batch}: {how} of {event[0]} {event[1] or ''}, which was not to be told")
	if not f.options.running:
		for event in sorted(wanted - set(got), key=str):
			f.add("I6 batch-event-missing", f"{batch}: nobody {how} of {event[0]} {event[1] or ''}")


def callbacks_once(f):
	calls = {}
	for row in f.tables.callbacks:
		calls.setdefault(row["batch_id"], []).append(row)
	known = {str(row["id"]) for row in f.tables.callbacks}
	for batch in batches_of(f):
		rows = calls.get(batch.id, [])
		wanted = wanted_events(f, batch, batch.row["callback_tasks"]) if batch.row["callback_url"] else set()
		compare(f, batch, "was called by HTTP", [(row["event"], row["task_id"]) for row in rows], wanted)
		for row in rows:
			if row["state"] == "delivered" and f.before.received is not None and str(row["id"]) not in f.after.received:
				f.add("I6 batch-told-wrongly", f"{batch}: callback {row['id']} is said delivered, and was received by nobody")
			if not f.options.running and row["state"] != "delivered":
				f.add("I6 batch-event-missing", f"{batch}: callback {row['id']} is {row['state']} ({row['last_error']})")
	for call in f.before.received or {}:
		if call not in known:
			f.add("I6 batch-told-wrongly", f"callback {call} was received; no table has it")


def told_by_tasks_once(f):
	told = {}
	types = {row["callback_type"] for row in f.tables.batches if row["callback_type"]}
	for row in f.tables.tasks + f.tables.history:
		event = told_of(row) if row["type"] in types else None
		if event:
			batch = event.get("batch_id") or (event.get("batch") or {}).get("id")
			task = event["task"]["id"] if event["event"] == "task_end" else None
			told.setdefault(batch, []).append((event["event"], task))
	for batch in batches_of(f):
		wanted = wanted_events(f, batch, True) if batch.row["callback_type"] else set()
		compare(f, batch, "was told by a task", told.get(batch.id, []), wanted)


BATCH_RULES = (
	batches_are_there, counts_are_right, batches_end_once, entry_and_exit, callbacks_once, told_by_tasks_once,
)
