-- What the attempts of a task come to; the last thousand, as a key that is run again and again has one task.
--   error_count    how many failed, as `reeve errors` counts them
--   recoverable    whether the last error was one that is tried again; null: there is none, or nobody can tell
--   processing_ms  how long the latest attempt that has ended took, from claim to end
-- The attempt that ended a task is not among the attempts: `started` tells of it, unless that one is there.
create or replace function attempts_told(of_task bigint, task_status text, task_error text, task_recoverable boolean, task_started timestamptz,
  task_ended timestamptz) returns table (error_count int, recoverable boolean, processing_ms bigint)
language sql stable as $$
  select (coalesce(a.bad, 0) + (task_status = 'dead' and by_attempt)::int)::int,
    case when task_status in ('dead', 'cancelled') then task_recoverable
      when task_error is not null then a.last_bad <> 'dead' end,
    (case when by_attempt then extract(epoch from task_ended - task_started) * 1000 else a.took end)::bigint
  from (
    select count(*) filter (where bad) as bad, coalesce(bool_or(token = task_started), false) as known,
      (array_agg(outcome order by token desc) filter (where bad))[1] as last_bad,
      (array_agg(extract(epoch from last_updated - token) * 1000 order by token desc)
        filter (where outcome <> 'taken_back'))[1] as took
    from (
      select *, outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
        or outcome in ('lease_ended', 'taken_back') and status in ('failed', 'dead') as bad
      from task_attempts where task_id = of_task order by token desc limit 1000) b) a
  cross join lateral (select task_ended is not null and task_started is not null and not a.known as by_attempt) e
$$;
