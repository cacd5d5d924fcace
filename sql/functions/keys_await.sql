-- Waits until no open transaction has these keys, and keeps none of them. The caller is about to lock a queue or a
-- batch. Every session that ends tasks of that queue or batch waits for the lock, so the caller must not wait for an
-- application's key while it has it.
create or replace function keys_await(in_queues text[], wanted text[]) returns void language plpgsql as $$
begin
  insert into keys (queue, key, task_id)
  select distinct u.queue, u.key, 0 from unnest(in_queues, wanted) u(queue, key) where u.key is not null order by 1, 2
  on conflict do nothing;
  raise exception using errcode = 'RV000'; -- rolled back with the block's savepoint
exception when sqlstate 'RV000' then
  null;
end $$;
