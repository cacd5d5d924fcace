-- Returns ended tasks with their results, without their details: the first one, and as many more as fit. A result longer
-- than a task may be in an answer is null, and the last columns say how long it is.
-- takes WaitRequest: ids, @max_bytes, @max_task
-- gives WaitResponse.ended: [task], omitted.bytes, omitted.result_bytes
select h.task_id, h.{shown}, null::text as details, case when h.omitted is null then h.result end, left(h.last_error, 1000), h.error_code, w.name as worker, h.last_updated,
  h.created, h.first_started, h.started, h.last_updated as ended, null::timestamptz as expiry, false,
  h.remark, left(h.stack_trace, 1000), h.batch_id, h.version as key_version, p.name as pipeline, h.stage, h.step,
  r.error_count, r.recoverable, r.processing_ms, r.last_failed, h.omitted, h.omitted as result_omitted
from (
  select ranked.*, o.omitted, row_number() over (order by task_id) as place,
    sum(case when o.omitted is null then octet_length(coalesce(result, '')) else 0 end + 2048) over (order by task_id) as bytes
  from task_history ranked
  cross join lateral (select case when octet_length(result) > $3::bigint then octet_length(result) end as omitted) o
  where task_id = any($1::bigint[])) h
left join workers w on w.id = h.worker_id
left join pipelines p on p.id = h.pipeline_id
cross join lateral attempts_summary(h.task_id, h.status, h.last_error, h.recoverable, h.started, h.last_updated) r
where h.place = 1 or h.bytes <= $2
