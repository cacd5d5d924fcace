-- Submits the callback tasks for attempts that ended and whose tasks go on, and returns the HTTP callbacks to create. What runs
-- again after its batch is over is not notified, as with batch_tasks_ended.
create or replace function batch_attempts_ended(ended jsonb)
returns table (batch_id bigint, task_id bigint, event text, url text, secret text, payload text) language plpgsql strict as $$
begin
  perform submit_internal(b.queue, b.callback_type, batch_task_event(b, e), null, 'callback of batch ' || b.id)
  from jsonb_array_elements(ended) e join batches b on b.id = (e ->> 'batch_id')::bigint
  where b.callback_type is not null and b.phase not in ('exit', 'ended');
  return query
    select b.id, (e ->> 'id')::bigint, 'attempt_end', b.callback_url, b.callback_secret, batch_task_event(b, e)
    from jsonb_array_elements(ended) e join batches b on b.id = (e ->> 'batch_id')::bigint
    where b.callback_url is not null and b.phase not in ('exit', 'ended');
end $$;
