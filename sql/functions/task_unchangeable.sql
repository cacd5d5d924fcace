-- Returns why tasks_update cannot make `n` of the task `o`, or null. `stopped`: the queues that are stopped or stopping.
create or replace function task_unchangeable(o tasks, n tasks, change jsonb, stopped text[]) returns text language sql immutable as $$
  select case
    when o.status = 'executing' and change ?| array['run_at', 'details', 'queue', 'timeout_ms', 'key'] then 'executing'
    when n.max_attempts < n.attempt then 'attempts'
    when n.queue <> o.queue and (o.batch_id is not null or o.blocked_run_at is not null) then 'batch'
    when n.queue <> o.queue and n.queue = any(stopped) then 'stopped' end
$$;
