-- Summarizes the attempts of a task. Reads the last 1,000 of them, since a key that runs repeatedly has one task.
--   error_count    how many failed, as `reeve errors` counts them
--   recoverable    whether the last error allowed a retry; null: there is none, or this is not known
--   processing_ms  how long the latest ended attempt took, from claim to end
--   last_failed    when the last of those that failed ended
-- The attempt that ended a task is not in task_attempts: `task_started` is its token, unless task_attempts has that
-- token, too.
create or replace function attempts_summary(of_task bigint, task_status text, task_error text, task_recoverable boolean, task_started timestamptz,
  task_ended timestamptz) returns table (error_count int, recoverable boolean, processing_ms bigint, last_failed timestamptz)
language sql stable as $$
  select (coalesce(a.bad, 0) + (task_status = 'dead' and by_attempt)::int)::int,
    case when task_status in ('dead', 'cancelled') then task_recoverable
      when task_error is not null then a.last_bad <> 'dead' end,
    (case when by_attempt then extract(epoch from task_ended - task_started) * 1000 else a.took end)::bigint,
    case when task_status = 'dead' and by_attempt then task_ended else a.failed end
  from (
    select count(*) filter (where bad) as bad, coalesce(bool_or(token = task_started), false) as known,
      (array_agg(outcome order by token desc) filter (where bad))[1] as last_bad, max(last_updated) filter (where bad) as failed,
      (array_agg(extract(epoch from last_updated - token) * 1000 order by token desc)
        filter (where outcome <> 'requeued'))[1] as took
    from (
      select *, outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
        or outcome in ('lease_ended', 'requeued') and status in ('failed', 'dead') as bad
      from task_attempts where task_id = of_task order by token desc limit 1000) b) a
  cross join lateral (select task_ended is not null and task_started is not null and not a.known as by_attempt) e
$$;
