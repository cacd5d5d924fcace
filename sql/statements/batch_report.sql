-- Returns a batch and its tasks by id, live and ended, without its entry and exit task: all, or those that completed, failed or
-- are pending. Each row begins with the batch's columns; a batch without further tasks has one row, in which the task's id
-- is null. One task more than requested shows that there are more. The errors, remarks, details and results are limited to
-- those that an answer holds, plus two tasks; the result, then the details, of a task are omitted if they do not fit into a
-- message. Of a batch of which only some tasks are wanted, up to 1,000 ended ones are read: then there may be more after the
-- last of these. After a task's columns come the batch's first waiting task, and why it waits (tasks_waiting): its entry or
-- exit task, or one of its first 100 live tasks. The batch's columns are computed once, because the estimate of its remaining
-- time reads tasks.
-- takes BatchReportRequest: id, after_id, limit, @max_bytes, @max_details, full, tasks, @max_task
-- gives BatchReportResponse.tasks: .batch.[batch], [task], omitted.bytes, omitted.details_bytes, omitted.result_bytes,
--   .batch.[first_waiting], .more, .next_after_id
with first as materialized (
  select x.id, x.run_at, x.attempt
  from batches b cross join lateral (
    (select id, run_at, attempt, status, 0 as place from tasks where id = any(array[b.entry_id, b.exit_id]))
    union all
    (select id, run_at, attempt, status, 1 from tasks where batch_id = b.id order by id limit 100)) x
  where b.id = $1 and b.phase <> 'ended' and x.status in ('queued', 'failed')
  order by x.place, x.id limit 1),
 waits as materialized (select id, run_at, attempt, tasks_waiting(array[id], $5::bigint) as reasons from first),
 ended as materialized (
  select h.* from batches b cross join lateral (
    select * from task_history
    where batch_id = b.id and task_id > $2 and coalesce($7::text, '') <> 'pending'
      and task_id is distinct from b.entry_id and task_id is distinct from b.exit_id
    order by task_id limit case when $7::text is null then $3::bigint + 1 else 1000 end) h
  where b.id = $1),
 shown as materialized (select * from batches_shown where id = $1)
select s.*, t.id, t.{shown},
  case when t.details_omitted = 0 then t.details end, case when t.result_omitted = 0 then t.result end, t.last_error, t.error_code,
  w.name as worker, t.last_updated, t.created as task_created, t.first_started, t.started, t.ended, t.expiry, t.cancel_requested,
  t.remark, null::text as stack_trace, t.batch_id, t.version as key_version, p.name as pipeline,
  t.stage, t.step, r.error_count, r.recoverable, r.processing_ms, r.last_failed,
  nullif(t.details_omitted + t.result_omitted, 0) as omitted, t.details_omitted, t.result_omitted,
  f.id as first_waiting, f.run_at as first_run_at, f.attempt as first_attempt, f.reasons[1][1] as reason, f.reasons[1][2] as waits_for,
  f.reasons[1][3] as workers, f.reasons[1][4] as slots, f.reasons[1][5] as busy,
  scanned.upto is not null as more, scanned.upto as next_after
from shown s
left join waits f on true
left join lateral (
  select max(task_id) as upto from ended where $7::text is not null having count(*) = 1000) scanned on true
left join lateral (
  select u.*, details.omitted as details_omitted, result.omitted as result_omitted,
    sum(coalesce(octet_length(last_error), 0) + coalesce(octet_length(remark), 0) + n.details - details.omitted
      + n.result - result.omitted)
    over (order by id rows between unbounded preceding and 2 preceding) as before
  from ((select id, {shown}, case when $6::boolean then details end as details, null::text as result, last_error,
     error_code, worker_id, last_updated, created,
     case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
     case when status = 'executing' then last_updated else started end as started, null::timestamptz as ended,
     expiry, cancel_requested_at is not null as cancel_requested, remark, batch_id, version,
     pipeline_id, stage, step, null::boolean as recoverable
   from tasks
   where batch_id = s.id and id > $2 and id is distinct from s.entry_id and id is distinct from s.exit_id
     and coalesce($7::text, 'pending') = 'pending'
   order by id limit $3::bigint + 1)
  union all
  (select task_id, {shown}, case when $6::boolean then details end, case when $6::boolean then result end, last_error,
     error_code, worker_id, last_updated, created, first_started, started, last_updated, null, false, remark, batch_id,
     version, pipeline_id, stage, step, recoverable
   from ended
   where $7::text is null or (status = 'completed') = ($7::text = 'completed')
   order by task_id limit $3::bigint + 1)
  order by id limit $3::bigint + 1) u
  cross join lateral (select coalesce(octet_length(u.details), 0) as details, coalesce(octet_length(u.result), 0) as result) n
  cross join lateral (select case when n.result > $8::bigint then n.result else 0 end as omitted) result
  cross join lateral (
    select case when n.details + n.result - result.omitted > $8::bigint then n.details else 0 end as omitted) details) t on coalesce(t.before, 0) < $4::bigint
left join workers w on w.id = t.worker_id
left join pipelines p on p.id = t.pipeline_id
left join lateral attempts_summary(t.id, t.status, t.last_error, t.recoverable, t.started, t.ended) r on true
order by t.id limit $3::bigint + 1
