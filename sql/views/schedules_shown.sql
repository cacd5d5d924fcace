-- Schedules for display, with the outcome of the last run and the task that the next run waits for. `between`: with `=`
-- the planner may scan the runs of all schedules, newest first, if most runs belong to a few schedules.
create or replace view schedules_shown as
  select s.id, s.name, s.cron, s.zone, s.every_ms, s.start_at, s.spec, s.queue_action, s.action_queue, s.catch_up, s.max_catch_up,
    s.concurrency_policy, s.paused, s.next_at, s.source, s.created, s.updated, r.scheduled_at as last_scheduled, r.at as last_at,
    r.outcome as last_outcome, r.task_id as last_task_id,
    case when not s.paused and s.concurrency_policy = 'queue' and s.next_at <= statement_timestamp()
      and exists (select from tasks t where t.id = s.last_task_id) then s.last_task_id end as waits_for
  from schedules s
  left join lateral (
    select * from schedule_runs x where x.schedule_id between s.id and s.id order by x.schedule_id desc, x.id desc limit 1) r on true;
