"""The rules for the audit (I6): no event is missing, and all are in order."""

from facts import FINAL


def versions_grow(f):
	for task, chain in f.chains.items():
		created = min((row["created"] for row in f.by_id.get(task, [])), default=None)
		at = created
		for attempt in chain:
			if at is not None and attempt.token <= at:
				f.add("I6 order", f"{f.title(task)}: {attempt} has a token that is not later than {at}, what was before it")
			if attempt.end is not None and attempt.end <= attempt.token:
				f.add("I6 order", f"{f.title(task)}: {attempt} ended at version {attempt.end}")
			at = attempt.end if attempt.end is not None else attempt.token


def end_event(attempt):
	return attempt.status if attempt.status in FINAL else attempt.outcome


def audit_is_whole(f):
	"""The audit of each task has, in this order: submitted, then the claim and the end of each attempt."""
	audit = {}
	for event in f.tables.audit:
		audit.setdefault(event["id"], []).append(event)
	for task, rows in f.by_id.items():
		told = [e for e in audit.get(task, []) if e["place"] < 3]
		wanted = ["submitted"]
		for attempt in f.chains.get(task, []):
			wanted.append("claimed")
			if attempt.end is not None:
				wanted.append(end_event(attempt))
		if "token" in rows[0] and rows[0]["token"] is None:
			wanted.append(rows[0]["status"])
		got = [e["event"] for e in told]
		if got != wanted and not f.has_event(task, "retried"):
			f.add("I6 event-missing", f"{f.title(task)}: its audit is {' '.join(got) or 'empty'}; it should be {' '.join(wanted)}")
		versions = [e["version"] for e in told]
		if versions != sorted(versions) or len(set(zip(versions, (e["place"] for e in told)))) != len(told):
			f.add("I6 order", f"{f.title(task)}: the versions of its audit are {versions}")
	for task in audit:
		if task not in f.by_id:
			f.add("I6 order", f"the audit tells of task {task}; no table has it")


def takings_away_are_told(f):
	for attempt in f.known.values():
		taken = attempt.outcome in ("expired", "lost") or (attempt.status == "dead" and not attempt.by_report and
			attempt.row.get("error_code") in ("expired", "lost"))
		if taken and not any(e["event"] == "reclaimed" and e["version"] == attempt.end for e in f.events.get(attempt.task, [])):
			f.add("I6 event-missing", f"{f.title(attempt.task)}: {attempt} was taken away; no event says why")


def workers_are_told(f):
	told = {}
	for event in f.tables.worker_events:
		told.setdefault(event["worker_id"], []).append(event["event"])
	for worker in f.workers.values():
		events = told.get(worker["id"], [])
		ends = [event for event in events if event in ("left", "lost", "returned")]
		who = f"worker {worker['name']}, incarnation {worker['id']},"
		if events.count("registered") != 1:
			f.add("I6 event-missing", f"{who} was registered {events.count('registered')} times by its events")
		if len(ends) != (1 if worker["lost"] else 0):
			f.add("I6 event-missing", f"{who} is {'lost' if worker['lost'] else 'not lost'}; its events are {' '.join(events)}")
	for attempt in f.known.values():
		if attempt.worker not in f.workers:
			f.add("I6 event-missing", f"{f.title(attempt.task)}: {attempt} is of incarnation {attempt.worker}, which is nowhere")


AUDIT_RULES = (versions_grow, audit_is_whole, takings_away_are_told, workers_are_told)
