-- Ends tasks that wait and whose cancel was asked for. $1 ids, $2 days the history keeps them.
with locked as materialized (
  select * from tasks
  where id = any($1::bigint[]) and status in ('queued', 'failed') and cancel_requested_at is not null
  order by id for no key update),
 gone as (delete from tasks t using locked l where t.id = any(array[l.id])),
 history as (
  insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
    max_attempts, timeout_ms, retry_base_ms, retry_max_ms, worker_id, assignment_id, token, by_report, lane, batch_id,
    key, source, result, last_error, error_code, first_started, started, created, last_updated)
  select (statement_timestamp() at time zone 'UTC')::date + 1 + $2::int, id, route_id, priority, queue, type, details,
    'cancelled', run_at, attempt, max_attempts, timeout_ms, retry_base_ms, retry_max_ms, worker_id, null, null, false,
    lane, batch_id, key, source, null, last_error, error_code, first_started, started, created,
    greatest(clock_timestamp(), last_updated + interval '1us')
  from locked),
 kept_keys as (
  update keys k set expires_at = clock_timestamp() + interval '1 day'
  from (select queue, key, id from locked where key is not null) d
  where k.queue = any(array[d.queue]) and k.key = any(array[d.key]) and k.task_id = d.id and k.expires_at is null)
select id from locked
