-- Tasks that match a filter, newest first. $1 status or null, $2 queue or null, $3 type or null, $4 only ids below this,
-- $5 how many.
select t.id, t.queue, t.type, t.status, t.priority, t.run_at, t.attempt, t.max_attempts, t.timeout_ms, t.key, t.source,
  null::text as details, null::text as result, left(t.last_error, 200), t.error_code, w.name as worker, t.last_updated, t.created,
  t.first_started, t.started, t.finished, t.expiry, t.cancel_requested, left(t.remark, 200), null::text as stack, t.batch_id,
  t.version as key_version
from (
  (select id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, last_error,
     error_code, worker_id, last_updated, created,
     case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
     case when status = 'executing' then last_updated else started end as started, null::timestamptz as finished,
     expiry, cancel_requested_at is not null as cancel_requested, remark, batch_id, version
   from tasks
   where id < $4 and ($1::text is null or status = $1) and ($2::text is null or queue = $2)
     and ($3::text is null or type = $3)
   order by id desc limit $5)
  union all
  (select task_id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, last_error,
     error_code, worker_id, last_updated, created, first_started, started, last_updated, null, false, remark, batch_id,
     version
   from task_history
   where task_id < $4 and ($1::text is null or status = $1) and ($2::text is null or queue = $2)
     and ($3::text is null or type = $3)
   order by task_id desc limit $5)
  ) t left join workers w on w.id = t.worker_id
order by t.id desc limit $5
