-- Ends tasks whose rows are locked: moves them to the history, counts them and their batches, and adds the
-- callbacks. All tasks leave `tasks` here, except those that the statements complete, complete_one and complete_all end
-- with success. The end of an executing task also ends its attempt. `days`: the retention if the queue does not set
-- it.
create or replace function tasks_end(ends task_end[], days int) returns void language plpgsql as $$
begin
  with moved as (
    delete from tasks t using unnest(ends) e where t.id = any(array[e.id])
    returning t.id, t.route_id, t.{kept}, t.run_at, t.attempt, t.retrying, delayed_to(t.retrying, t.run_at, t.last_updated) as due,
      (statement_timestamp() at time zone 'UTC')::date + 1 + keep_days(t.queue, e.status, days) as keep_until,
      e.status, e.ended, e.by_report, e.result, e.error as last_error, e.error_code, e.remark, e.stack_trace, e.recoverable,
      case when t.status = 'executing' then t.assignment_id end as assignment_id,
      case when t.status = 'executing' then t.last_updated end as token,
      case when t.status = 'executing' then t.last_updated else t.started end as started,
      case when t.status = 'executing' then coalesce(t.first_started, t.last_updated) else t.first_started end as first_started),
{part history},
   counted as (
    insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
    select keep_until, route_id, status, count(*), due, -count(*), -count(retrying)
    from moved group by 1, 2, 3, 5)
  insert into callbacks (batch_id, task_id, event, url, secret, payload)
  select * from batch_tasks_ended((
    select jsonb_agg(jsonb_build_object('batch_id', m.batch_id, 'id', m.id, 'type', m.type, 'status', m.status,
      'attempt', m.attempt, 'error', left(m.last_error, 1000), 'error_code', m.error_code, 'remark', m.remark,
      'worker_id', case when m.token is not null then m.worker_id end,
      'details', case when m.fits then m.details end, 'result', case when m.fits then coalesce(m.result, '') end,
      'omitted', case when not m.fits then true end, 'started_at', m.token, 'ended_at', m.ended) order by m.id)
    from (
      select d.*,
{part fits} as fits
      from moved d
{part notified}) m));
end $$;
