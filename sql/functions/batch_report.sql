-- Returns the report of a batch, as `reeve --json` writes it: {"event", "batch": {…}}, and for its end "tasks", and their
-- ids in "completed" and "failed": the first LIMIT_REPORT_TASKS, up to 1 MiB of them, and not more than every manager takes as details: a callback task has
-- the report as its details. If there are more, "truncated" is true. Null: the batch does not exist any more.
create or replace function batch_report(of_batch bigint, of_event text) returns text language sql stable as $$
  with lines as materialized (
    select t.id, t.status = 'completed' as well, row_number() over (order by t.id) as n, json_build_object('id', t.id, 'type', t.type, 'status', t.status,
      'attempt', t.attempt, 'max_attempts', t.max_attempts, 'key', coalesce(t.key, ''),
      'last_error', coalesce(left(t.last_error, 1000), ''), 'error_code', coalesce(t.error_code, ''),
      'remark', coalesce(t.remark, ''), 'worker', coalesce(w.name, ''), 'created', time_text(t.created),
      'first_started', time_text(t.first_started), 'started', time_text(t.started), 'ended', time_text(t.ended)) as line
    from (select id, type, status, attempt, max_attempts, key, last_error, error_code, remark, worker_id, created,
        first_started, started, ended
      from all_tasks
      where batch_id = of_batch and of_event = 'batch_end' and id not in (
        select unnest(array[coalesce(entry_id, 0), coalesce(exit_id, 0)]) from batches where id = of_batch)
      order by id limit LIMIT_REPORT_TASKS + 1) t
    left join workers w on w.id = t.worker_id),
   fitting as (
    select id, well, line from (
      select id, well, n, line, sum(octet_length(line::text) + 2) over (order by id) as bytes from lines) l
    where n <= LIMIT_REPORT_TASKS and bytes <= least(1048576, max_details() - 3000)) -- 3000: the batch
  select json_strip_nulls(json_build_object('event', of_event,
    'batch', json_build_object('id', b.id, 'name', b.name, 'queue', b.queue, 'implicit', b.implicit, 'state', b.state,
      'phase', b.phase, 'submitted', b.submitted, 'pending', b.pending, 'completed', b.completed, 'failed', b.failed,
      'created', time_text(b.created), 'started', time_text(b.started_at), 'closed', time_text(b.closed_at),
      'ended', time_text(b.ended_at), 'duration_ms', b.duration_ms, 'remaining_ms', b.remaining_ms,
      'entry_id', coalesce(b.entry_id, 0), 'entry_status', coalesce(b.entry_status, 'unspecified'),
      'exit_id', coalesce(b.exit_id, 0), 'exit_status', coalesce(b.exit_status, 'unspecified'), 'source', b.source,
      'callbacks_waiting', b.callbacks_waiting, 'callbacks_given_up', b.callbacks_given_up, 'stopped', b.stopped),
    'completed', case when of_event = 'batch_end' then (select coalesce(json_agg(id order by id) filter (where well), '[]') from fitting) end,
    'failed', case when of_event = 'batch_end' then (select coalesce(json_agg(id order by id) filter (where not well), '[]') from fitting) end,
    'tasks', case when of_event = 'batch_end' then (select coalesce(json_agg(line order by id), '[]') from fitting) end,
    'truncated', case when (select count(*) from lines) > (select count(*) from fitting) then true end))::text
  from batches_shown b where b.id = of_batch
$$;
