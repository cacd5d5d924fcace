-- What happened since a time, tasks, workers, queues and schedules together. $1 not before this time, $2 how many.
select a.at, a.task_id, a.version, a.event, w.name, a.worker_id, a.attempt, a.actor, left(a.note, 1000)
from (
  select at, task_id, version, place, event, worker_id, attempt, actor, note from audit_log where at >= $1 and keep_until >= ($1 at time zone 'UTC')::date
  union all
  select at, 0, at, 0, event, worker_id, null, actor, note from worker_events where at >= $1
  union all
  select at, 0, at, 0, event, null, null, actor, concat_ws(': ', 'queue ' || queue, nullif(note, ''))
  from queue_events where at >= $1
  union all
  select at, 0, at, 0, event, null, null, actor, concat_ws(': ', 'schedule ' || schedule, nullif(note, ''))
  from schedule_events where at >= $1) a
left join workers w on w.id = a.worker_id
order by a.version, a.task_id, a.place, a.at limit $2
