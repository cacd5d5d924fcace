-- Returns a task with the changes of tasks_update, except for the details.
create or replace function task_updated(t tasks, change jsonb) returns tasks language plpgsql as $$
declare
  s jsonb; -- the new stage
  due timestamptz;
begin
  if change ? 'stage' then
    select x into s from pipelines p, jsonb_array_elements(p.stages) x where p.id = t.pipeline_id and x ->> 'name' = change ->> 'stage';
  end if;
  if s is not null then
    t.stage := s ->> 'name';
    t.step := t.step + 1;
    t.type := s ->> 'type';
    t.queue := coalesce(s ->> 'queue', t.queue);
    t.priority := coalesce((s ->> 'priority')::int, t.priority);
    t.max_attempts := s ->> 'max_attempts';
    t.timeout_ms := s ->> 'timeout_ms';
    t.retry_base_ms := s ->> 'retry_base_ms';
    t.retry_max_ms := s ->> 'retry_max_ms';
    t.retry_policy := s -> 'retry_policy';
    t.attempt := 0;
    if t.status = 'failed' then
      t.status := 'queued';
      t.retrying := null;
      t.run_at := clock_timestamp();
    end if;
  end if;
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
