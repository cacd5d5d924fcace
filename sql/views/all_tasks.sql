-- Live and finished tasks together. Read it in ONE statement: between two statements a task could move from one table
-- to the other and be missed.
create or replace view all_tasks as
  select id, {shown}, details,
    null::text as result, last_error, error_code, worker_id, last_updated, created,
    case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
    case when status = 'executing' then last_updated else started end as started,
    null::timestamptz as finished, expiry, cancel_requested_at is not null as cancel_requested, lane, batch_id, route_id,
    remark, stack_trace, version, pipeline_id, stage, step, null::boolean as recoverable
  from tasks
  union all
  select task_id, {shown}, details,
    result, last_error, error_code, worker_id, last_updated, created, first_started, started,
    last_updated, null, false, lane, batch_id, route_id, remark, stack_trace, version, pipeline_id, stage, step, recoverable
  from task_history;
