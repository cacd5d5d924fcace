-- The beginning of complete and complete_one. In `done`, the columns that several CTEs read come before the long ones.
-- `id between x and x`: see claim.
with done as (
  delete from tasks t using unnest($1::bigint[], $2::timestamptz[], $3::text[]) u(id, token, result)
  where t.id between u.id and u.id and t.last_updated = u.token and t.status = 'executing'
    and t.batch_id is null and t.pipeline_id is null and t.restart is null and t.permits is null
  returning t.id, t.last_updated as token, t.route_id, t.attempt, t.assignment_id, t.retrying,
    (select (statement_timestamp() at time zone 'UTC')::date + 1) + case
      when (select exists (select from queues where keep_completed_hours is not null))
        then keep_days(t.queue, 'completed', $4::int) else $4::int end as keep_until,
    t.run_at, greatest(clock_timestamp(), t.last_updated + interval '1us') as ended, t.{kept}, u.result, t.last_error,
    t.error_code, coalesce(t.first_started, t.last_updated) as first_started, t.remark, t.stack_trace),
{part completed}
