-- Returns tasks with all that is known of them, and why they wait (tasks_waiting). Each is an answer of its own. Its stack
-- trace, its result and its details, in this order of preference, get $2 bytes together: a stack trace that does not fit
-- is cut; a result or details that do not fit are null, and the last columns say how long they are.
-- takes WaitRequest: ids, @max_task, @max_details
-- gives ListResponse.tasks: [task], waiting.[waiting], omitted.bytes, omitted.details_bytes,
--   omitted.result_bytes, progress
with waits as materialized (select tasks_waiting($1::bigint[], $3::bigint) as reasons)
select t.id, t.{shown},
  case when details.omitted = 0 then t.details end, case when result.omitted = 0 then t.result end, t.last_error, t.error_code,
  w.name as worker, t.last_updated, t.created, t.first_started, t.started, t.ended, t.expiry, t.cancel_requested, t.remark,
  n.stack_trace, t.batch_id, t.version as key_version, p.name as pipeline, t.stage, t.step,
  r.error_count, r.recoverable, r.processing_ms, r.last_failed,
  (select reasons from waits)[n.place][1] as reason, (select reasons from waits)[n.place][2] as waits_for,
  (select reasons from waits)[n.place][3] as workers, (select reasons from waits)[n.place][4] as slots,
  (select reasons from waits)[n.place][5] as busy,
  nullif(details.omitted + result.omitted, 0) as omitted, details.omitted as details_omitted, result.omitted as result_omitted,
  (select p.progress from task_progress p where p.task_id = t.id and p.token = t.started) as progress
from all_tasks t left join workers w on w.id = t.worker_id
left join pipelines p on p.id = t.pipeline_id
cross join lateral attempts_summary(t.id, t.status, t.last_error, t.recoverable, t.started, t.ended) r
cross join lateral (
  select array_position($1::bigint[], t.id) as place, octet_length(t.details) as details,
    coalesce(octet_length(t.result), 0) as result,
    case when octet_length(t.stack_trace) > $2::bigint then left(t.stack_trace, 8000) else t.stack_trace end as stack_trace) n
cross join lateral (select $2::bigint - coalesce(octet_length(n.stack_trace), 0) as bytes) room
cross join lateral (select case when n.result > room.bytes then n.result else 0 end as omitted) result
cross join lateral (
  select case when n.details + n.result - result.omitted > room.bytes then n.details else 0 end as omitted) details
where t.id = any($1::bigint[])
