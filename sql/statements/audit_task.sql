-- The story of one task, in order. $1 id, $2 not before this time, $3 how many.
select a.at, a.task_id, a.version, a.event, w.name, a.worker_id, a.attempt, a.actor, left(a.note, 1000)
from audit_log a left join workers w on w.id = a.worker_id
where a.task_id = $1 and a.at >= $2
order by a.version, a.place, a.at limit $3
