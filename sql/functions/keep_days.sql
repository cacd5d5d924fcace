-- Returns how many days the history keeps a task with this final status.
create or replace function keep_days(of_queue text, ended_as text, otherwise int) returns int language sql stable as $$
  select coalesce((select case ended_as when 'completed' then keep_completed_days when 'dead' then keep_dead_days
    else keep_cancelled_days end from queues where name = of_queue), otherwise)
$$;
