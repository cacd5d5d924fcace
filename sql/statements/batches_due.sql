-- Returns batches with something to do, and what: a step, or to release blocked tasks, or to end these because the
-- batch's entry task failed. A blocked task of a batch that has begun was retried just then. (LIMIT and OFFSET restrict
-- the search for blocked tasks to one per batch: an EXISTS would be planned as a hash of all blocked tasks. The OFFSET
-- of `due` makes sure that only due batches are locked.) $1 the maximum number, $2 only ids after this one, $3 whether
-- to leave out those whose rows another session has locked.
select due.id, due.what
from (
  select b.id, case when not h.blocked then 'step' when b.entry_status <> 'completed' then 'fail' else 'release' end as what
  from batches b left join queues q on q.name = b.queue
  cross join lateral (select case when b.phase in ('releasing', 'running') then coalesce(
    (select true from tasks t where t.batch_id = b.id and t.blocked_run_at is not null limit 1), false) else false end as blocked
    offset 0) h
  where b.phase <> 'ended' and b.id > $2::bigint and (h.blocked or case b.phase
    when 'new' then b.submitted > 0 or b.closed_at is not null or b.implicit
    when 'entry' then b.entry_status is not null
    when 'running' then b.pending = 0 and (b.closed_at is not null or b.implicit)
    when 'exit' then b.exit_status is not null
    else true end
    or b.closed_at is null and q.state in ('stopping', 'stopped') and b.created <= q.stopped_at)
  order by b.id offset 0) due
where case when $3::boolean
  then (select true from batches x where x.id = due.id for no key update skip locked) else true end
order by due.id limit $1
