-- Requests that executing tasks start over: their workers get a command to stop them, and when the attempts have ended
-- without success, the tasks are queued again; or those that hang fail with the error `hanged`, and are retried like any
-- that fail. If a newer version waits for the end of the attempt, the task still becomes that. Pull clients take no
-- commands: restart_free ends their attempts, in the same transaction. The rows are locked whatever their status, and
-- chosen by what that returns. It waits for no lock.
-- retry_waiting, in the same transaction, has locked the rows that existed then. A row that another session has started
-- over since is left to that session: to wait for it, out of the order of ids, could be a deadlock. $1 ids, $2 actor,
-- $3 whether they hang.
with locked as materialized (
  select id, status, worker_id, last_updated, cancel_requested_at from tasks where id = any($1::bigint[])
  order by id for no key update skip locked),
 running as materialized (
  select l.*, exists (select from workers w where w.id = l.worker_id and not w.manual) as commanded from locked l
  where status = 'executing' and cancel_requested_at is null),
 marked as (
  update tasks t set restart = case when $3::boolean then nullif(t.restart, '{}') else coalesce(t.restart, '{}') end,
    stop_code = case when $3 and coalesce(t.restart, '{}') = '{}' then 'hanged' end
  from running r where t.id = any(array[r.id])),
 requested as (
  insert into worker_commands (worker_id, task_id, token, kind)
  select worker_id, id, last_updated, 'cancel' from running where commanded
  on conflict do nothing returning task_id),
 events as (
  insert into task_events (task_id, version, event, actor, note)
  select id, last_updated, 'restart_requested', $2, case when $3 then 'hanged' else '' end from running
  where not commanded or id in (select task_id from requested))
select id, worker_id, last_updated, not commanded or id in (select task_id from requested) as marked, commanded from running
