-- Starts ended tasks afresh under the same id: the history row goes, the ended attempt is kept among the attempts.
-- $1 ids, $2 actor.
with gone as (delete from task_history where task_id = any($1::bigint[]) returning *),
 versioned as materialized (
  select g.*, greatest(clock_timestamp(), g.last_updated + interval '1us') as version from gone g),
 made as (
  insert into tasks (id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts, timeout_ms,
    retry_base_ms, retry_max_ms, worker_id, lane, batch_id, key, source, last_error, error_code, first_started, started,
    created, last_updated) overriding system value
  select task_id, route_id, priority, queue, type, details, 'queued', version, 0, max_attempts, timeout_ms,
    retry_base_ms, retry_max_ms, worker_id, lane, batch_id, key, source, last_error, error_code, first_started, started,
    created, version
  from versioned order by task_id
  returning id, last_updated, run_at, route_id, priority),
 attempts as (
  insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, error,
    error_code, run_at, last_updated)
  select task_id, token, attempt, worker_id, assignment_id, status, status, by_report, last_error, error_code, null,
    last_updated
  from versioned where token is not null),
 told as (
  insert into task_events (task_id, version, event, actor)
  select task_id, last_updated, status, '' from versioned where token is null
  union all
  select task_id, version, 'retried', $2 from versioned),
 kept_keys as (
  update keys k set expires_at = null
  from (select queue, key, task_id from versioned where key is not null) d
  where k.queue = any(array[d.queue]) and k.key = any(array[d.key]) and k.task_id = d.task_id and k.keep_ms is null)
select id, last_updated, run_at, route_id, priority from made
