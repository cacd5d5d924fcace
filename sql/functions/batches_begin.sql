-- Begins batches that have just got their first task, and the waiting periods of their queues. The submit of that task
-- calls it in the same transaction.
create or replace function batches_begin(ids bigint[]) returns void language plpgsql as $$
declare
  b batches;
begin
  for b in select * from batches where id = any(ids) and phase = 'new' and submitted > 0 order by id for no key update loop
    if b.entry_type is not null then
      b.entry_id := batch_submit(b, 'entry', b.entry_type);
    end if;
    update batches set phase = case when b.entry_id is null then 'running' else 'entry' end, entry_id = b.entry_id,
      started_at = clock_timestamp()
    where id = b.id returning * into b;
    update queues set waiting_until = clock_timestamp() + interval '1ms' * waiting_ms, updated = clock_timestamp()
    where name = b.queue and waiting_ms > 0;
    if found then
      perform pg_notify('reeve_notify', 'queues');
    end if;
    perform batch_notify(b, 'batch_begin');
  end loop;
end $$;
