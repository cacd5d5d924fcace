-- Returns why tasks_update cannot make `n` of the task `o`, or null. `stopped`: the queues that are stopped or stopping.
create or replace function task_unchangeable(o tasks, n tasks, change jsonb, stopped text[]) returns text language sql immutable as $$
  select case
    when o.status = 'executing' and change ?| array['run_at', 'details', 'queue', 'timeout_ms', 'key', 'stage'] then 'executing'
    when change ? 'stage' and n.step is not distinct from o.step then 'stage'
    when n.max_attempts < n.attempt then 'attempts'
    when o.batch_id is not null and change ? 'queue' and n.queue <> o.queue then 'batch'
    when o.blocked_run_at is not null and (n.queue <> o.queue or o.batch_id is null and n.type <> o.type) then 'batch'
    when n.queue <> o.queue and n.queue = any(stopped) then 'stopped' end
$$;
