-- Live and ended tasks together. Read it in ONE statement: between two statements a task could move from one table
-- to the other and be missed. The last columns are computed only if a query names them: what attempts_summary returns. A
-- view's functions, unlike its tables, would need rights of the reader.
create or replace view all_tasks as
  select id, {shown}, details,
    null::text as result, last_error, error_code, worker_id, last_updated, created,
    case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
    case when status = 'executing' then last_updated else started end as started,
    null::timestamptz as ended, expiry, cancel_requested_at is not null as cancel_requested, lane, batch_id, route_id,
    remark, stack_trace, version, pipeline_id, stage, step, null::boolean as recoverable,
    (select w.name from workers w where w.id = t.worker_id) as operator_id,
    (select count(*) from task_attempts a where a.task_id = t.id and (a.outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
      or a.outcome in ('lease_ended', 'requeued') and a.status in ('failed', 'dead')))::int as error_count,
    (select extract(epoch from a.last_updated - a.token) * 1000 from task_attempts a
      where a.task_id = t.id and a.outcome <> 'requeued' order by a.token desc limit 1)::bigint as processing_ms,
    (select max(a.last_updated) from task_attempts a where a.task_id = t.id and (a.outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
      or a.outcome in ('lease_ended', 'requeued') and a.status in ('failed', 'dead'))) as last_failed
  from tasks t
  union all
  select task_id, {shown}, details,
    result, last_error, error_code, worker_id, last_updated, created, first_started, started,
    last_updated, null, false, lane, batch_id, route_id, remark, stack_trace, version, pipeline_id, stage, step, recoverable,
    (select w.name from workers w where w.id = t.worker_id),
    (status = 'dead' and token is not null)::int +
      (select count(*) from task_attempts a where a.task_id = t.task_id and (a.outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
      or a.outcome in ('lease_ended', 'requeued') and a.status in ('failed', 'dead')))::int,
    coalesce(extract(epoch from last_updated - token) * 1000,
      (select extract(epoch from a.last_updated - a.token) * 1000 from task_attempts a
        where a.task_id = t.task_id and a.outcome <> 'requeued' order by a.token desc limit 1))::bigint,
    case when status = 'dead' and token is not null then last_updated else
      (select max(a.last_updated) from task_attempts a where a.task_id = t.task_id and (a.outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
      or a.outcome in ('lease_ended', 'requeued') and a.status in ('failed', 'dead'))) end
  from task_history t;
