-- Advances a batch as far as possible now, except that it does not release (or end) its blocked tasks. Locks the
-- queue's row, then the batch's row, so that each step happens once, however many sessions try. Returns the steps
-- taken.
create or replace function batch_step(of_batch bigint) returns table (steps text, name text, queue text, submitted bigint,
  completed bigint, failed bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  b batches;
  q queues;
  made text[] := '{}';
begin
  select * into q from queues where name = (select queue from batches where id = of_batch) for no key update;
  select * into b from batches where id = of_batch for no key update;
  if b.phase = 'new' and b.submitted > 0 then
    perform batches_begin(array[b.id]);
    made := made || 'begun'::text;
    select * into b from batches where id = of_batch;
  end if;
  -- An implicit batch closes when it has no pending task; any batch closes when its queue is stopped or its entry task
  -- failed.
  if b.closed_at is null and (b.implicit and b.pending = 0 and b.phase in ('new', 'running')
    or q.state in ('stopping', 'stopped') and b.created <= q.stopped_at
    or b.phase = 'entry' and b.entry_status <> 'completed') then
    update batches set closed_at = clock_timestamp(), stopped = coalesce(q.state in ('stopping', 'stopped'), false)
    where id = of_batch returning * into b;
    made := made || 'closed'::text;
  end if;
  if b.closed_at is not null and q.batch_id = b.id then
    update queues set batch_id = null where name = q.name; -- not a setting: no notification
  end if;
  if b.phase = 'entry' and b.entry_status is not null then
    update batches set phase = 'releasing' where id = of_batch returning * into b;
    made := made || 'releasing'::text;
  end if;
  if b.phase = 'releasing' and not exists (select from tasks where batch_id = of_batch and blocked_run_at is not null) then
    update batches set phase = 'running' where id = of_batch returning * into b;
    made := made || 'running'::text;
  end if;
  -- A batch without tasks has not begun, and its end causes no notification. A stopped queue runs no exit task. Tasks that were
  -- submitted by SQL before the batch was closed are still to be counted.
  if b.phase in ('new', 'running') and b.closed_at is not null and b.pending = 0
    and (b.stopped or not exists (select from inbox i where i.batch_id = of_batch)) then
    if b.submitted > 0 and b.exit_type is not null and not b.stopped and coalesce(q.state, '') not in ('stopping', 'stopped')
    then
      update batches set phase = 'exit', exit_id = batch_submit(b, 'exit', b.exit_type) where id = of_batch
      returning * into b;
      made := made || 'exit'::text;
    else
      b.exit_status := 'none';
    end if;
  end if;
  if b.exit_status is not null and b.phase <> 'ended' then
    update batches set phase = 'ended', ended_at = clock_timestamp() where id = of_batch returning * into b;
    if b.submitted > 0 then
      perform batch_notify(b, 'batch_end');
    end if;
    made := made || 'ended'::text;
  end if;
  return query select array_to_string(made, ' '), b.name, b.queue, b.submitted, b.completed, b.failed;
end $$;
