-- Ends a plain attempt that succeeded like complete, if it is the only one: without aggregates, which cost as much as the
-- rest.
--   the parameters of complete, each array with one element
with done as (
  delete from tasks t using unnest($1::bigint[], $2::timestamptz[], $3::text[]) u(id, token, result)
  where t.id between u.id and u.id and t.last_updated = u.token and t.status = 'executing'
    and t.batch_id is null and t.pipeline_id is null and t.restart is null and t.permits is null
  returning t.id, t.last_updated, t.route_id, t.attempt, t.assignment_id, t.retrying, t.key,
    (select (statement_timestamp() at time zone 'UTC')::date + 1) + case
      when (select exists (select from queues where keep_completed_hours is not null))
        then keep_days(t.queue, 'completed', $4::int) else $4::int end as keep_until,
    t.run_at, t.{kept}, u.result, t.last_error, t.error_code, t.first_started, t.remark, t.stack_trace),
 history as (
  insert into task_history (keep_until, task_id, route_id, {kept}, status, run_at, attempt, assignment_id, token, by_report,
    key, result, last_error, error_code, first_started, started, last_updated, remark, stack_trace)
  select keep_until, id, route_id, {kept}, 'completed', run_at, attempt, assignment_id, last_updated, true,
    key, result, last_error, error_code, coalesce(first_started, last_updated), last_updated,
    greatest(clock_timestamp(), last_updated + interval '1us'), remark, stack_trace
  from done),
 ended_counts as (
  insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
  select keep_until, route_id, 'completed', 1, delayed_to(retrying, run_at, last_updated), -1,
    case when retrying is null then 0 else -1 end
  from done),
 lowered as (
  update assignments a set open = a.open - 1, closed_at = case when a.open = 1 then clock_timestamp() end
  from done d where a.id = any(array[d.assignment_id]))
select id, last_updated as token, route_id, attempt from done
