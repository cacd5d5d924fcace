-- Requests that executing tasks start over: their workers get a command to stop them, and when the attempts have ended
-- without success, the tasks are queued again. If a newer version waits for the end of the attempt, the task still
-- becomes that. The rows are locked whatever their status, and chosen by what that returns. It waits for no lock.
-- retry_waiting, in the same transaction, has locked the rows that existed then. A row that another session has started
-- over since is left to that session: to wait for it, out of the order of ids, could be a deadlock. $1 ids, $2 actor.
with locked as materialized (
  select id, status, worker_id, last_updated, cancel_requested_at from tasks where id = any($1::bigint[])
  order by id for no key update skip locked),
 running as materialized (select * from locked where status = 'executing' and cancel_requested_at is null),
 marked as (update tasks t set restart = coalesce(t.restart, '{}') from running r where t.id = any(array[r.id])),
 requested as (
  insert into worker_commands (worker_id, task_id, token, kind) select worker_id, id, last_updated, 'cancel' from running
  on conflict do nothing returning task_id),
 told as (
  insert into task_events (task_id, version, event, actor)
  select id, last_updated, 'restart_requested', $2 from running where id in (select task_id from requested))
select id, worker_id, last_updated, id in (select task_id from requested) as marked from running
