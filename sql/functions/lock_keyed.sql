-- Locks the tasks of keys, live or ended, in id order, then the keys: the order of every statement that ends a task, or
-- starts an ended one again. A task that came back to life during the wait for its row could only be locked out of
-- order. Then all locks are released, with the block's savepoint, and taken again.
create or replace function lock_keyed(in_queues text[], wanted text[]) returns void language plpgsql as $$
declare
  owners bigint[];
  locked bigint[];
begin
  loop
    begin
      owners := array(select k.task_id from unnest(in_queues, wanted) u(queue, key)
        join keys k on k.queue = u.queue and k.key = u.key);
      locked := array(select id from tasks where id = any(owners) order by id for no key update);
      perform from task_history where task_id = any(owners) order by task_id for update;
      perform from keys k join unnest(in_queues, wanted) u(queue, key) on k.queue = u.queue and k.key = u.key
        order by k.queue, k.key for update of k;
      if not exists (select from unnest(in_queues, wanted) u(queue, key)
        join keys k on k.queue = u.queue and k.key = u.key
        join tasks t on t.id = k.task_id where t.id <> all(locked)) then
        return;
      end if;
      raise exception using errcode = 'RV000';
    exception when sqlstate 'RV000' then
      null;
    end;
  end loop;
end $$;
