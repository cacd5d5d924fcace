-- Returns the callback payload for the end of a task, or (with "event") of an attempt after which it goes on; times are as in
-- the contract's JSON. The counts of the worker are those of its last heartbeat. Details and result are absent if the payload
-- would be longer than a callback task's details can be, and if the caller has omitted them.
create or replace function batch_task_event(b batches, task jsonb) returns text language sql stable as $$
  select json_strip_nulls(json_build_object('event', coalesce(task ->> 'event', 'task_end'), 'batch_id', b.id, 'batch', b.name,
    'queue', b.queue, 'task', json_build_object('id', task -> 'id', 'type', task -> 'type', 'status', task -> 'status',
      'attempt', task -> 'attempt',
      'last_error', coalesce(left(task ->> 'error', 1000), ''), 'error_code', coalesce(task ->> 'error_code', ''),
      'remark', coalesce(task ->> 'remark', ''), 'worker', coalesce(w.name, ''),
      'started', time_text((task ->> 'started_at')::timestamptz), 'ended', time_text((task ->> 'ended_at')::timestamptz),
      'run_at', time_text((task ->> 'run_at')::timestamptz),
      'details', case when fits.fit then task -> 'details' end, 'result', case when fits.fit then task -> 'result' end,
      'omitted', case when not fits.fit then true end),
    'worker', case when w.id is not null then json_build_object('name', w.name, 'registered', time_text(w.registered),
      'completed', w.completed, 'failed', w.failed,
      'uptime_ms', (extract(epoch from statement_timestamp() - w.registered) * 1000)::bigint) end))::text
  from (select coalesce(octet_length((task -> 'details')::text), 0) + coalesce(octet_length((task -> 'result')::text), 0)
      <= least(1048576, max_details() - 10000) and task ->> 'omitted' is null as fit) fits
  left join workers w on w.id = (task ->> 'worker_id')::bigint
$$;
