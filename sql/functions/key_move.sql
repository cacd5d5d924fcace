-- Gives the key of a task, whose row is locked, another queue or text. `queues`: those in which its key can be; `old_key` null:
-- it has none. Returns false if another task has the new key, or may get it: a submit locks the key first and tasks
-- afterwards, so this must not wait.
create or replace function key_move(of_task bigint, queues text[], old_key text, to_queue text, new_key text) returns boolean
language plpgsql set lock_timeout = '20ms' as $$
declare
  k keys;
begin
  select * into k from keys x where x.queue = any(queues) and x.key = old_key and x.task_id = of_task;
  if not found and new_key = old_key then
    return true; -- its lifetime is over
  elsif k.queue = to_queue and k.key = new_key then
    return true;
  elsif not found then
    select nullif(q.key_ttl_ms, 0) into k.keep_ms from queues q where q.name = to_queue;
    k.expires_at := clock_timestamp() + interval '1ms' * k.keep_ms;
  end if;
  delete from keys x where x.queue = to_queue and x.key = new_key and x.expires_at <= clock_timestamp();
  insert into keys (queue, key, task_id, keep_ms, expires_at, version)
  values (to_queue, new_key, of_task, k.keep_ms, k.expires_at, k.version) on conflict do nothing;
  if not found then
    return exists (select from keys x where x.queue = to_queue and x.key = new_key and x.task_id = of_task);
  end if;
  delete from keys x where x.queue = k.queue and x.key = k.key;
  return true;
exception when lock_not_available then
  return false;
end $$;
