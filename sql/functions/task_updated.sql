-- Returns a task with the changes of tasks_update, except for the details.
create or replace function task_updated(t tasks, change jsonb) returns tasks language plpgsql as $$
declare
  due timestamptz;
begin
  t.priority := coalesce((change ->> 'priority')::int, t.priority);
  t.max_attempts := coalesce((change ->> 'max_attempts')::int, t.max_attempts);
  t.queue := coalesce(change ->> 'queue', t.queue);
  t.timeout_ms := coalesce((change ->> 'timeout_ms')::bigint, t.timeout_ms);
  t.key := coalesce(change ->> 'key', t.key);
  if change ? 'run_at' then
    due := us_time((change ->> 'run_at')::bigint);
    if t.blocked_run_at is null then
      t.run_at := greatest(due, clock_timestamp());
    else
      t.blocked_run_at := due;
    end if;
  end if;
  return t;
end $$;
