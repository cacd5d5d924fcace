-- Returns tasks that are blocked by a batch whose entry task did not complete, some at a time, and why they end. $1 the
-- batch, $2 the maximum number.
select t.id, format('the entry task %s of batch %s ended %s', b.entry_id, b.id, b.entry_status)
from batches b cross join lateral (
  select id from tasks where batch_id = b.id and blocked_run_at is not null order by id limit $2) t
where b.id = $1 and b.phase in ('releasing', 'running') and b.entry_status <> 'completed'
