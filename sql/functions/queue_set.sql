-- Changes a queue's settings: `change` has the new values of columns. A setting that needs batches turns them on.
create or replace function queue_set(request uuid, of_queue text, change jsonb, by text) returns queues language plpgsql as $$
declare
  q queues;
  needs text;
begin
  if (select repeated from queue_request(request)) then
    select * into q from queues where name = of_queue;
    return q;
  end if;
  loop
    insert into queues (name) values (of_queue) on conflict do nothing;
    select * into q from queues where name = of_queue for no key update;
    exit when found;
  end loop; -- another session has just deleted the row
  q := jsonb_populate_record(q, change);
  if q.callback_url is null then
    if change ->> 'callback_secret' is not null or (change ->> 'callback_tasks')::boolean then
      raise exception using errcode = 'RV400', message = format('settings.%s needs a callback_url, and the queue has none',
        case when change ->> 'callback_secret' is not null then 'callback_secret' else 'callback_tasks' end);
    end if;
    q.callback_secret := null;
    q.callback_tasks := false;
  end if;
  if q.callback_url is null and q.callback_type is null then
    if (change ->> 'callback_attempts')::boolean then
      raise exception using errcode = 'RV400',
        message = 'settings.callback_attempts needs a callback_url or a callback_type, and the queue has none';
    end if;
    q.callback_attempts := false;
  end if;
  needs := case when not q.autostart then 'autostart is off' when q.callback_url is not null then 'callback_url is set'
    when q.callback_type is not null then 'callback_type is set' when q.entry_type is not null then 'entry_type is set'
    when q.exit_type is not null then 'exit_type is set' end;
  if needs is not null and not q.batches then
    if change ? 'batches' then
      raise exception using errcode = 'RV400', message = format('settings.batches is off, and %s, which is about batches', needs);
    end if;
    q.batches := true;
  end if;
  update queues set batches = q.batches, autostart = q.autostart, is_verbose = q.is_verbose, max_attempts = q.max_attempts,
    retry_base_ms = q.retry_base_ms, retry_max_ms = q.retry_max_ms, retry_policy = q.retry_policy, resting_ms = q.resting_ms,
    waiting_ms = q.waiting_ms, waiting_until = case when q.waiting_ms > 0 then waiting_until end,
    max_running = q.max_running, callback_url = q.callback_url, callback_secret = q.callback_secret,
    callback_tasks = q.callback_tasks, callback_type = q.callback_type, entry_type = q.entry_type, exit_type = q.exit_type,
    keep_completed_hours = q.keep_completed_hours, keep_dead_hours = q.keep_dead_hours,
    keep_cancelled_hours = q.keep_cancelled_hours, key_ttl_ms = q.key_ttl_ms, priority = nullif(q.priority, 0),
    timeout_ms = nullif(q.timeout_ms, 0), callback_attempts = q.callback_attempts, updated = clock_timestamp()
  where name = of_queue returning * into q;
  if change ? 'max_running' then
    perform queue_limit(of_queue, q.max_running);
  end if;
  perform queue_event(of_queue, 'queue_set', by, (select string_agg(key, ', ' order by key) from jsonb_object_keys(change) key));
  return q;
end $$;
