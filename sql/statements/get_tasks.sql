-- Returns tasks with all that is known of them, and why they wait (tasks_waiting).
-- takes WaitRequest: ids
-- gives ListResponse.tasks: [task], waiting.[waiting]
with waits as materialized (select tasks_waiting($1::bigint[]) as told)
select t.id, t.queue, t.type, t.status, t.priority, t.run_at, t.attempt, t.max_attempts, t.timeout_ms, t.key, t.source,
  t.details, t.result, t.last_error, t.error_code, w.name as worker, t.last_updated, t.created, t.first_started,
  t.started, t.finished, t.expiry, t.cancel_requested, t.remark, t.stack_trace,
  t.batch_id, t.version as key_version, p.name as pipeline, t.stage, t.step,
  r.error_count, r.recoverable, r.processing_ms,
  (select told from waits)[n.place][1] as reason, (select told from waits)[n.place][2] as waits_for,
  (select told from waits)[n.place][3] as workers, (select told from waits)[n.place][4] as slots,
  (select told from waits)[n.place][5] as busy
from all_tasks t left join workers w on w.id = t.worker_id
left join pipelines p on p.id = t.pipeline_id
cross join lateral attempts_summary(t.id, t.status, t.last_error, t.recoverable, t.started, t.finished) r
cross join lateral (select array_position($1::bigint[], t.id) as place) n
where t.id = any($1::bigint[])
