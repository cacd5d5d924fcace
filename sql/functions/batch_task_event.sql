-- Returns the callback payload for the end of a task; times are as in the contract's JSON.
create or replace function batch_task_event(b batches, task jsonb) returns text language sql stable as $$
  select json_strip_nulls(json_build_object('event', 'task_end', 'batch_id', b.id, 'batch', b.name, 'queue', b.queue, 'task',
    json_build_object('id', task -> 'id', 'type', task -> 'type', 'status', task -> 'status', 'attempt', task -> 'attempt',
      'last_error', coalesce(left(task ->> 'error', 1000), ''), 'error_code', coalesce(task ->> 'error_code', ''),
      'remark', coalesce(task ->> 'remark', ''), 'worker', coalesce(task ->> 'worker', ''),
      'started', time_text((task ->> 'started_at')::timestamptz), 'finished', time_text((task ->> 'ended_at')::timestamptz))))::text
$$;
