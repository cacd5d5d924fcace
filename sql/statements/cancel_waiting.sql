-- Ends tasks that wait and whose cancel was asked for: cancelled, or dead where a code for that stands. $1 ids, $2 days the
-- history keeps them if their queue does not say, $3 the error of those that end dead.
with locked as materialized (
  select *, case when stop_code is not null then 'dead' else 'cancelled' end as becomes,
    greatest(clock_timestamp(), last_updated + interval '1us') as ended
  from tasks
  where id = any($1::bigint[]) and status in ('queued', 'failed') and cancel_requested_at is not null
  order by id for no key update),
 gone as (delete from tasks t using locked l where t.id = any(array[l.id])),
 history as (
  insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
    max_attempts, timeout_ms, retry_base_ms, retry_max_ms, worker_id, assignment_id, token, by_report, lane, batch_id,
    key, source, result, last_error, error_code, first_started, started, created, last_updated, retry_policy, remark, stack,
    version, pipeline_id, stage, step)
  select (statement_timestamp() at time zone 'UTC')::date + 1 + keep_days(queue, becomes, $2::int), id, route_id, priority, queue, type, details,
    becomes, run_at, attempt, max_attempts, timeout_ms, retry_base_ms, retry_max_ms, worker_id, null, null, false,
    lane, batch_id, key, source, null, case when becomes = 'dead' then $3 else last_error end,
    coalesce(stop_code, error_code), first_started, started, created, ended, retry_policy, remark, stack, version,
    pipeline_id, stage, step
  from locked
  returning keep_until, route_id, status),
 ended_counts as (
  insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
  select keep_until, route_id, status, count(*), null, 0, 0 from history group by 1, 2, 3
  union all
  select null, route_id, null, 0, delayed_to(status, run_at, last_updated), -count(*), -count(retrying)
  from locked group by 2, 5),
 batched as (
  insert into callbacks (batch_id, task_id, event, url, secret, payload)
  select * from batch_tasks_ended((
    select jsonb_agg(jsonb_build_object('batch_id', l.batch_id, 'id', l.id, 'type', l.type, 'status', l.becomes,
      'attempt', l.attempt, 'error', case when l.becomes = 'dead' then $3 else l.last_error end,
      'error_code', coalesce(l.stop_code, l.error_code), 'remark', l.remark, 'ended_at', l.ended) order by l.id)
    from locked l where l.batch_id is not null))),
 kept_keys as (
  update keys k set expires_at = clock_timestamp() + interval '1 day'
  from (select queue, key, id from locked where key is not null) d
  where k.queue = any(array[d.queue]) and k.key = any(array[d.key]) and k.task_id = d.id and k.expires_at is null
    and k.version is null)
select id, batch_id is not null as batched, route_id, becomes from locked
