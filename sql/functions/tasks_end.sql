-- Ends tasks whose rows are locked: moves them to the history, counts them and their batches, and adds the
-- callbacks. All tasks leave `tasks` here, except those that complete.sql, complete_one.sql and complete_all.sql
-- end with success. The end of an executing task also ends its attempt. `days`: the retention if the queue does not set
-- it.
create or replace function tasks_end(ends task_end[], days int) returns void language plpgsql as $$
begin
  with gone as (
    delete from tasks t using unnest(ends) e where t.id = any(array[e.id])
    returning t.*, (statement_timestamp() at time zone 'UTC')::date + 1 + keep_days(t.queue, e.status, days) as keep_until,
      e.status as becomes, e.ended, e.by_report, e.result, e.error, e.error_code as code, e.remark as new_remark, e.stack_trace as trace, e.recoverable,
      case when t.status = 'executing' then t.last_updated end as token),
   history as (
    insert into task_history (keep_until, task_id, route_id, {kept}, status, run_at, attempt, assignment_id, token, by_report,
      batch_id, key, result, last_error, error_code, first_started, started, last_updated, remark, stack_trace,
      pipeline_id, stage, step, recoverable)
    select keep_until, id, route_id, {kept}, becomes, run_at, attempt, case when token is not null then assignment_id end, token,
      by_report, batch_id, key, result, error, code, coalesce(first_started, token), coalesce(token, started), ended, new_remark, trace,
      pipeline_id, stage, step, recoverable
    from gone),
   counted as (
    insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
    select keep_until, route_id, becomes, count(*), delayed_to(retrying, run_at, last_updated), -count(*), -count(retrying)
    from gone group by 1, 2, 3, 5)
  insert into callbacks (batch_id, task_id, event, url, secret, payload)
  select * from batch_tasks_ended((
    select jsonb_agg(jsonb_build_object('batch_id', g.batch_id, 'id', g.id, 'type', g.type, 'status', g.becomes,
      'attempt', g.attempt, 'error', g.error, 'error_code', g.code, 'remark', g.new_remark,
      'worker_id', case when g.token is not null then g.worker_id end,
      'details', case when c.notifies then g.details end, 'result', case when c.notifies then coalesce(g.result, '') end,
      'started_at', g.token, 'ended_at', g.ended) order by g.id)
    from gone g cross join lateral (
      select callback_tasks or callback_type is not null as notifies from batches where id = g.batch_id offset 0) c
    where g.batch_id is not null));
end $$;
