-- Opens a batch and returns its id. Options that are null are those of its queue.
create or replace function batch_open(request uuid, with_name text, in_queue text, url text, secret text, each_task boolean,
  with_type text, with_entry text, with_exit text, by text, each_attempt boolean) returns bigint language plpgsql as $$
declare
  made bigint := nextval(pg_get_serial_sequence('batches', 'id'));
  before bigint := batch_request(request, 'batch_open', made);
  q queues;
begin
  if before is not null then
    return before;
  end if;
  select * into q from queues where name = in_queue;
  if coalesce(url, q.callback_url) is null and (secret is not null or each_task) then
    raise exception using errcode = 'RV400', message = format('%s needs a callback_url, and queue "%s" has none',
      case when secret is not null then 'callback_secret' else 'callback_tasks' end, in_queue);
  elsif coalesce(url, q.callback_url, with_type, q.callback_type) is null and each_attempt then
    raise exception using errcode = 'RV400',
      message = format('callback_attempts needs a callback_url or a callback_type, and queue "%s" has none', in_queue);
  end if;
  insert into batches (id, name, queue, implicit, callback_url, callback_secret, callback_tasks, callback_type, entry_type,
    exit_type, source, callback_attempts) overriding system value
  select made, with_name, in_queue, false, coalesce(url, q.callback_url),
    case when url is null then coalesce(secret, q.callback_secret) else secret end,
    each_task or url is null and coalesce(q.callback_tasks, false), coalesce(with_type, q.callback_type),
    coalesce(with_entry, q.entry_type), coalesce(with_exit, q.exit_type), by,
    each_attempt or url is null and with_type is null and coalesce(q.callback_attempts, false);
  return made;
end $$;
