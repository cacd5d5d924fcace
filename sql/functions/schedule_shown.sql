-- Returns a schedule for display, without its task's details, with the last run and the task that the next run waits
-- for. `between`: with `=` the planner may scan the runs of all schedules, newest first, if most runs belong to a few
-- schedules.
create or replace function schedule_shown(s schedules)
returns table (name text, cron text, zone text, every_ms bigint, start_at timestamptz, manual boolean, task jsonb, queue_action text,
  action_queue text, catch_up text, max_catch_up int, concurrency_policy text, paused boolean, next_at timestamptz,
  last_scheduled timestamptz, last_at timestamptz, last_outcome text, last_task_id bigint, waits_for bigint, source text,
  created timestamptz, updated timestamptz)
language sql stable as $$
  select s.name, s.cron, s.zone, s.every_ms, case when s.every_ms is not null then s.start_at end, s.cron is null and s.every_ms is null,
    task_shown(s.spec - 'details'), s.queue_action, s.action_queue, s.catch_up, case when s.catch_up = 'all' then s.max_catch_up end,
    s.concurrency_policy, s.paused, s.next_at, r.scheduled_at, r.at, r.outcome, r.task_id,
    case when not s.paused and s.concurrency_policy = 'queue' and s.next_at <= statement_timestamp()
      and exists (select from tasks t where t.id = s.last_task_id) then s.last_task_id end,
    s.source, s.created, s.updated
  from (values (1)) one
  left join lateral (
    select * from schedule_runs x where x.schedule_id between s.id and s.id order by x.schedule_id desc, x.id desc limit 1) r on true
$$;
