-- Counts ended tasks of batches. Every statement that ends tasks calls it for those with a batch. Locks the batches'
-- rows in id order. Submits the callback tasks, and returns the HTTP callbacks to create. The entry and exit tasks only
-- set their own statuses. A task that was run again after its batch was over (its exit task had begun, or the batch had
-- ended) was not counted back, and is not counted now.
create or replace function batch_tasks_ended(ended jsonb)
returns table (batch_id bigint, task_id bigint, event text, url text, secret text, payload text)
language plpgsql strict as $$
begin
  perform from batches b
  where b.id in (select (e ->> 'batch_id')::bigint from jsonb_array_elements(ended) e)
  order by b.id for no key update;
  update batches b set
    pending = b.pending - n.counted, completed = b.completed + n.completed, failed = b.failed + n.counted - n.completed,
    entry_status = coalesce(n.entry, b.entry_status), exit_status = coalesce(n.exit, b.exit_status)
  from (
    select b2.id, count(*) filter (where c.counts) as counted,
      count(*) filter (where c.counts and e.status = 'completed') as completed,
      max(e.status) filter (where e.id = b2.entry_id) as entry, max(e.status) filter (where e.id = b2.exit_id) as exit
    from jsonb_to_recordset(ended) as e(id bigint, batch_id bigint, status text)
    join batches b2 on b2.id = e.batch_id
    cross join lateral (select b2.phase <> 'exit' and e.id is distinct from b2.entry_id
      and e.id is distinct from b2.exit_id as counts) c
    where b2.phase <> 'ended'
    group by b2.id) n
  where b.id = n.id;
  return query select * from batch_events(ended, 'task_end');
end $$;
