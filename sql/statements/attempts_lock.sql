-- Before attempts are ended, in the same transaction: returns those that still have their task's lock, and whether
-- every row that their end changes (the task, its batch, its limits, its journal row) could be locked. The others must be
-- tried again later, so that they delay no attempt. Only rows of batches are waited for: see batches_try_lock.
-- The join runs batches_try_lock before the tasks are locked: while it waits, it holds only rows of batches.
--   $1 ids, $2 tokens, $3 batches whose rows it does not wait for; null: it waits for none
-- Returns places in $1, and what batches_try_lock says of the attempt's batch.
with held as materialized (
  select u.n, t.*
  from unnest($1::bigint[], $2::timestamptz[]) with ordinality u(id, token, n)
  cross join lateral (
    select id, batch_id, assignment_id, permits from tasks t
    where t.id = u.id and t.last_updated = u.token and t.status = 'executing' offset 0) t),
 tasks_locked as materialized (
  select h.n from held h cross join lateral (
    select from tasks t where t.id = h.id and t.assignment_id = h.assignment_id and t.status = 'executing'
    offset 0 for update skip locked) t),
 batches_locked as materialized (
  select * from batches_try_lock(array(select batch_id from held where batch_id is not null), $3::bigint[])),
 limits_locked as materialized (
  select l.id from (select distinct x.id from held cross join unnest(permits) x(id) order by 1) h
  cross join lateral (select id from limits l where l.id = h.id offset 0 for no key update skip locked) l),
 journal_locked as materialized (
  select a.id from (select distinct assignment_id from held order by 1) h
  cross join lateral (select id from assignments a where a.id = h.assignment_id offset 0 for no key update skip locked) a)
select h.n, h.n = any(array(select n from tasks_locked)) and not coalesce(b.locked, false)
  and (h.assignment_id = any(array(select id from journal_locked))
    or (select true from assignments a where a.id = h.assignment_id) is null)
  and (h.permits is null
    or (select true from limits l where l.id = any(h.permits) and l.id <> all(array(select id from limits_locked)) limit 1) is null) as free,
  h.batch_id, coalesce(b.waited, false) as waited, coalesce(b.locked, false) as locked
from held h left join batches_locked b using (batch_id)
order by h.n
