-- Ends plain attempts that succeeded: the task moves from `tasks` to the history, and `open` of its journal row is
-- lowered. An attempt that lost its lock does not match its token and is not in the answer; nor is one whose task needs
-- more than that (a batch, a pipeline, permits, a newer version to run next): complete_all and end_attempts end those.
--   one element per attempt, in id order: $1 ids, $2 tokens, $3 results; $4 the retention in days if their queue does
--   not set it
-- In `done`, the columns that several CTEs read come before the long ones, and its rows are added up once: each read of
-- them costs. `id between x and x`: see claim.
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
 ended as materialized (
  select assignment_id, route_id, keep_until, delayed_to(retrying, run_at, last_updated) as due, count(*)::int as n,
    count(retrying)::int as retrying
  from done group by 1, 2, 3, 4),
 ended_counts as (
  insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
  select keep_until, route_id, 'completed', sum(n), due, -sum(n), -sum(retrying) from ended group by 1, 2, 5),
 lowered as (
  update assignments a set open = a.open - e.n, closed_at = case when a.open = e.n then clock_timestamp() end
  from (select assignment_id, sum(n)::int as n from ended group by 1 order by 1) e
  where a.id = any(array[e.assignment_id]))
select id, last_updated as token, route_id, attempt from done
