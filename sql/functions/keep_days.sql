-- Returns how many whole days the history keeps a task with this final status; purge_hours deletes it when further hours are
-- over.
create or replace function keep_days(of_queue text, ended_as text, otherwise int) returns int language sql stable as $$
  select coalesce((select case ended_as when 'completed' then keep_completed_hours when 'dead' then keep_dead_hours
    else keep_cancelled_hours end / 24 from queues where name = of_queue), otherwise)
$$;
