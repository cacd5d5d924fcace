-- Locks batches in id order: those in `ids`, and those of the keys' tasks, which are locked already.
create or replace function lock_batches(ids bigint[], in_queues text[], wanted text[]) returns void language plpgsql as $$
begin
  perform from batches where id = any(ids || array(
    select coalesce(t.batch_id, h.batch_id)
    from unnest(in_queues, wanted) u(queue, key) join keys k on k.queue = u.queue and k.key = u.key
    left join tasks t on t.id = k.task_id left join task_history h on h.task_id = k.task_id))
  order by id for no key update;
end $$;
