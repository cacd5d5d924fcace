"""Finds the workers that were marked lost during a fault, and decides which of these losses the fault explains."""

import re

# How long after its last answer a worker leaves a frozen manager. It leaves a manager that has lost its database in
# about the same time (docs/reliability.md).
LEAVE_MS = 1500


def lost_workers(postgres):
	"""Returns the workers of the run that were ever marked lost: {incarnation: (name, number of its last accepted
	heartbeat, seconds from that heartbeat until it was registered again, or inf)}. Leaves out incarnations without a
	heartbeat whose process had another one at the same time: it registered again because the answer had not arrived,
	and never used this one."""
	rows = postgres.sql("select w.id, w.name, w.hb_seq, coalesce(extract(epoch from (select min(n.registered) from workers n "
		"where n.id > w.id and split_part(n.name, '.', 1) = split_part(w.name, '.', 1)) - w.hb_at), 'infinity') "
		"from worker_events e join workers w on w.id = e.worker_id where e.event = 'lost' and w.name not like 'flood-%' "
		"and not (w.hb_seq = 0 and exists (select from workers o where o.id <> w.id and (o.name, o.host, o.pid) = (w.name, w.host, w.pid) "
		"and o.registered < e.at and (o.gone_at is null or o.gone_at > w.registered)))")
	return {int(row[0]): (row[1], int(row[2]), float(row[3])) for row in rows or []}


def ended_workers(fixture):
	"""Returns the incarnations whose process has ended, and which are neither marked lost nor have left. Their lease
	may end at any time."""
	alive = {worker.popen.pid for worker in fixture.workers.values() if worker.alive}
	rows = fixture.postgres.sql("select id, pid from workers where gone_at is null and not lost and not manual and name not like 'flood-%'")
	return {int(row[0]) for row in rows or [] if int(row[1]) not in alive}


def unanswered(log, incarnation, last, urls):
	"""Returns whether the worker's log says that the first heartbeat after the last accepted one, or that one itself
	(only its answer is then missing), went to one of these URLs and got no answer."""
	life = re.search(rf": registered as incarnation {incarnation}$(.*?)(?:: registered as incarnation |\Z)", log, re.MULTILINE | re.DOTALL)
	failed = re.findall(r": heartbeat (\d+) failed, .*: no answer from (\S+) in time$", life[1] if life else "", re.MULTILINE)
	return any(int(number) in (last, last + 1) and url in urls for number, url in failed)


def judge(fixture, before, ended, silent, limit_s):
	"""Returns the names of the workers lost since `before`, an earlier result of lost_workers(): those that the fault
	explains, and the others. Workers in `ended`, the result of ended_workers() before the fault, are in neither list.

	A worker's last accepted heartbeat is up to a heartbeat interval older than its manager's last answer. If the lease
	can end before the worker leaves that manager, the worker may be lost. The fault explains that if the worker was
	connected to one of the managers `silent`, which answered no calls, and was registered again within the limit."""
	short = fixture.lease_ms <= fixture.heartbeat_ms + LEAVE_MS
	urls = {url for manager in silent for url in fixture.urls_of(manager)}
	explained, others = [], []
	for incarnation, (name, last, again_s) in sorted(lost_workers(fixture.postgres).items()):
		if incarnation in before or incarnation in ended:
			continue
		with_it = short and urls and again_s <= limit_s and unanswered(fixture.log_of(name.split(".")[0]), incarnation, last, urls)
		(explained if with_it else others).append(name)
	return explained, others
