-- Has executing tasks started again: their workers get an order to stop them, and when the attempts have ended, in any way
-- but well, the tasks are queued anew. A newer version that waits for the attempt's end stays what the task becomes then.
-- The rows are locked whatever their status and chosen by what that returns. It waits for no lock. retry_waiting, in the same
-- transaction, has locked the rows that there were then. A row that somebody else has started again since is left to him:
-- waiting for it, out of the order of ids, could be a deadlock. $1 ids, $2 actor.
with locked as materialized (
  select id, status, worker_id, last_updated, cancel_requested_at from tasks where id = any($1::bigint[])
  order by id for no key update skip locked),
 running as materialized (select * from locked where status = 'executing' and cancel_requested_at is null),
 marked as (update tasks t set restart = coalesce(t.restart, '{}') from running r where t.id = any(array[r.id])),
 ordered as (
  insert into orders (worker_id, task_id, token, kind) select worker_id, id, last_updated, 'cancel' from running
  on conflict do nothing returning task_id),
 told as (
  insert into task_events (task_id, version, event, actor)
  select id, last_updated, 'restart_requested', $2 from running where id in (select task_id from ordered))
select id, worker_id, last_updated, id in (select task_id from ordered) as marked from running
