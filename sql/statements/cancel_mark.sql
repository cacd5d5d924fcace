-- Requests a cancel or discard, whatever the status; the token stays. Executing tasks get a command for their worker.
-- One statement with an arm for each case would match neither while a task is just failing, so another statement ends
-- the waiting tasks in the same transaction (cancel_waiting). $1 ids, $2 actor, $3 reason, $4 the code with which the
-- tasks end dead, or null for a cancel.
with locked as materialized (
  select id, status, worker_id, last_updated, cancel_requested_at, stop_code
  from tasks where id = any($1::bigint[]) order by id for no key update),
 marked as (
  update tasks t set cancel_requested_at = coalesce(t.cancel_requested_at, clock_timestamp()), restart = null,
    stop_code = coalesce($4::text, case when l.cancel_requested_at is not null then t.stop_code end)
  from locked l where t.id = any(array[l.id])
    and (l.cancel_requested_at is null or $4::text is not null and l.stop_code is null)),
 requested as (
  insert into worker_commands (worker_id, task_id, token, kind)
  select worker_id, id, last_updated, 'cancel' from locked
  where status = 'executing' and cancel_requested_at is null
  on conflict do nothing),
 events as (
  insert into task_events (task_id, version, event, actor, note)
  select id, last_updated, case when $4::text is null then 'cancel_requested' else 'discard_requested' end, $2, $3 from locked
  where cancel_requested_at is null or $4::text is not null and stop_code is null)
select id, status, worker_id, last_updated, cancel_requested_at is null or $4::text is not null and stop_code is null as marked,
  status = 'executing' and exists (select from workers w where w.id = any(array[l.worker_id]) and w.manual) as pulled
from locked l
