"""Workers that were marked lost during a fault, and which of them the fault explains."""

import re

# A worker leaves a frozen manager so long after its last answer, and in about the same time one that has lost its database
# (docs/reliability.md).
LEAVE_MS = 1500


def lost_workers(postgres):
	"""Those of the run that were ever marked lost: {incarnation: (name, number of its last heartbeat that was taken, after how many
	seconds from then on it was registered again, or inf)}."""
	rows = postgres.sql("select w.id, w.name, w.hb_seq, coalesce(extract(epoch from (select min(n.registered) from workers n "
		"where n.id > w.id and split_part(n.name, '.', 1) = split_part(w.name, '.', 1)) - w.hb_at), 'infinity') "
		"from worker_events e join workers w on w.id = e.worker_id where e.event = 'lost' and w.name not like 'flood-%'")
	return {int(row[0]): (row[1], int(row[2]), float(row[3])) for row in rows or []}


def ended_workers(stage):
	"""The incarnations whose process has ended, and that nobody has marked lost or seen leave yet: their lease may end at any time."""
	alive = {worker.popen.pid for worker in stage.workers.values() if worker.alive}
	rows = stage.postgres.sql("select id, pid from workers where gone_at is null and not lost and not by_hand and name not like 'flood-%'")
	return {int(row[0]) for row in rows or [] if int(row[1]) not in alive}


def unanswered(log, incarnation, last, urls):
	"""Whether the worker's log says that the first heartbeat after the last one that was taken, or that one itself (only its answer
	is missing then), went to one of these URLs and got no answer."""
	life = re.search(rf": registered as incarnation {incarnation}$(.*?)(?:: registered as incarnation |\Z)", log, re.MULTILINE | re.DOTALL)
	failed = re.findall(r": heartbeat (\d+) failed, .*: no answer from (\S+) in time$", life[1] if life else "", re.MULTILINE)
	return any(int(number) in (last, last + 1) and url in urls for number, url in failed)


def judge(stage, before, ended, silent, limit_s):
	"""The names of the workers that were lost since `before`, a former lost_workers(): those whom the fault explains, and the others.
	Those in `ended`, of ended_workers() before the fault, count as neither.

	A worker's last heartbeat is taken at most a heartbeat interval before its manager's last answer. Where the lease ends before
	it can have left that manager, it may be lost: if it was with one of the managers `silent`, which answered nobody, and was
	registered again within the limit."""
	short = stage.lease_ms <= stage.heartbeat_ms + LEAVE_MS
	urls = {url for manager in silent for url in stage.urls_of(manager)}
	explained, others = [], []
	for incarnation, (name, last, again_s) in sorted(lost_workers(stage.postgres).items()):
		if incarnation in before or incarnation in ended:
			continue
		with_it = short and urls and again_s <= limit_s and unanswered(stage.log_of(name.split(".")[0]), incarnation, last, urls)
		(explained if with_it else others).append(name)
	return explained, others
