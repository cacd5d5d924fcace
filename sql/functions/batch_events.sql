-- Submits the callback tasks for ended tasks (task_end) or for attempts after which their tasks go on (attempt_end), and returns
-- the HTTP callbacks to create. Both have the same payload. What runs again after its batch is over is not notified.
create or replace function batch_events(ended jsonb, of_event text)
returns table (batch_id bigint, task_id bigint, event text, url text, secret text, payload text) language plpgsql strict as $$
declare notice record;
begin
  for notice in
    select b.id, b.queue, b.callback_type, b.callback_secret, (e ->> 'id')::bigint as task, batch_task_event(b, e) as payload,
      case when b.callback_tasks or of_event = 'attempt_end' then b.callback_url end as url
    from jsonb_array_elements(ended) e join batches b on b.id = (e ->> 'batch_id')::bigint
    where (b.callback_type is not null or b.callback_url is not null) and b.phase not in ('exit', 'ended')
      and (e ->> 'id')::bigint is distinct from b.entry_id
  loop
    if notice.callback_type is not null then
      perform submit_internal(notice.queue, notice.callback_type, notice.payload, null, 'callback of batch ' || notice.id);
    end if;
    if notice.url is not null then
      return query values (notice.id, notice.task, of_event, notice.url, notice.callback_secret, notice.payload);
    end if;
  end loop;
end $$;
