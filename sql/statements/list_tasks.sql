-- Tasks that match a filter, newest first. $1 status or null, $2 queue or null, $3 type or null, $4 only ids below this,
-- $5 how many.
--   Further conditions, each or null: $6 statuses, $7 queue, $8 type, $9 error, $10 part of the error, $11 error code, $12
--   submitted at least so long ago in ms, $13 at most so long, $14 executing at least so long, $15 batch, $16 key, $17 source;
--   $18 only ids above this
select t.id, t.queue, t.type, t.status, t.priority, t.run_at, t.attempt, t.max_attempts, t.timeout_ms, t.key, t.source,
  null::text as details, null::text as result, left(t.last_error, 200), t.error_code, w.name as worker, t.last_updated, t.created,
  t.first_started, t.started, t.finished, t.expiry, t.cancel_requested, left(t.remark, 200), null::text as stack, t.batch_id,
  t.version as key_version, p.name as pipeline, t.stage, t.step, r.error_count, r.recoverable, r.processing_ms
from (
  (select id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, last_error,
     error_code, worker_id, last_updated, created,
     case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
     case when status = 'executing' then last_updated else started end as started, null::timestamptz as finished,
     expiry, cancel_requested_at is not null as cancel_requested, remark, batch_id, version,
     pipeline_id, stage, step, null::boolean as recoverable
   from tasks
   where id < $4 and id > $18 and ($1::text is null or status = $1) and ($2::text is null or queue = $2)
     and ($3::text is null or type = $3)
     and ($6::text[] is null or status = any($6)) and ($7::text is null or queue = $7) and ($8::text is null or type = $8)
     and ($9::text is null or last_error = $9) and ($10::text is null or strpos(last_error, $10) > 0)
     and ($11::text is null or error_code = $11)
     and ($12::bigint is null or created <= statement_timestamp() - interval '1ms' * $12)
     and ($13::bigint is null or created >= statement_timestamp() - interval '1ms' * $13)
     and ($14::bigint is null or status = 'executing' and last_updated <= statement_timestamp() - interval '1ms' * $14)
     and ($15::bigint is null or batch_id = $15) and ($16::text is null or key = $16)
     and ($17::text is null or source = $17)
   order by id desc limit $5)
  union all
  (select task_id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, last_error,
     error_code, worker_id, last_updated, created, first_started, started, last_updated, null, false, remark, batch_id,
     version, pipeline_id, stage, step, recoverable
   from task_history
   where task_id < $4 and task_id > $18 and ($1::text is null or status = $1) and ($2::text is null or queue = $2)
     and ($3::text is null or type = $3)
     and ($6::text[] is null or status = any($6)) and ($7::text is null or queue = $7) and ($8::text is null or type = $8)
     and ($9::text is null or last_error = $9) and ($10::text is null or strpos(last_error, $10) > 0)
     and ($11::text is null or error_code = $11)
     and ($12::bigint is null or created <= statement_timestamp() - interval '1ms' * $12)
     and ($13::bigint is null or created >= statement_timestamp() - interval '1ms' * $13)
     and $14::bigint is null
     and ($15::bigint is null or batch_id = $15) and ($16::text is null or key = $16)
     and ($17::text is null or source = $17)
   order by task_id desc limit $5)
  order by 1 desc limit $5) t left join workers w on w.id = t.worker_id left join pipelines p on p.id = t.pipeline_id
cross join lateral attempts_told(t.id, t.status, t.last_error, t.recoverable, t.started, t.finished) r
order by t.id desc limit $5
