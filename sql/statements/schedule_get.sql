-- Returns a schedule. $1 name, $2 how many of its next scheduled times. The columns are those of schedule_list.
select v.name, v.cron, v.zone, v.every_ms, v.start_at, v.spec::text, v.queue_action, v.action_queue, v.catch_up, v.max_catch_up,
  v.concurrency_policy, v.paused, v.next_at, v.last_scheduled, v.last_at, v.last_outcome, v.last_task_id, v.waits_for, v.source, v.created,
  v.updated,
  array(
    with recursive scheduled (at, n) as (
      select schedule_next(s, statement_timestamp()), 1 where $2::int > 0
      union all
      select schedule_next(s, p.at), p.n + 1 from scheduled p where p.n < $2 and p.at is not null)
    select at from scheduled where at is not null order by n)
from schedules_shown v join schedules s on s.id = v.id
where v.name = $1::text
