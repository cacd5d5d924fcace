-- Prepares a submit with tasks of batches, or of queues with settings. Returns element by element the batch of each
-- task, whether the task is blocked until the batch has begun, and whether the batch begins with it. Opens implicit
-- batches, and starts stopped queues. The rows stay locked until the tasks are created: queues by name, then batches by
-- id; before them the rows of tasks that are submitted with versions, whose keys are in `versioned`. A queue whose
-- tasks all name their batch is locked only to be started, or if it has a waiting period, which a batch may begin: a stop locks the queue's batches, and submits into other
-- batches do not wait for each other. If a copy of the call was committed while this one waited for locks, that copy
-- counts, whatever has become of queue and batch since.
create or replace function submit_batches(request uuid, in_queues text[], in_batches bigint[], versioned text[])
returns table (n bigint, batch_id bigint, blocked boolean, begins boolean)
language plpgsql as $$
declare
  q queues;
  b batches;
  wrong record;
  locked text[];
begin
  perform lock_keyed(in_queues, versioned);
  locked := array(select name from queues where name = any(array(
      select u.name from unnest(in_queues, in_batches) u(name, batch) left join queues s on s.name = u.name
      where u.batch is null or s.state in ('stopping', 'stopped') or s.waiting_ms > 0))
    order by name for no key update);
  perform lock_batches(in_batches || array(select s.batch_id from queues s where s.name = any(in_queues)), in_queues, versioned);
  for q in select * from queues where name = any(in_queues) order by name loop
    if q.state in ('stopping', 'stopped') then
      perform unless_submitted(request);
    end if;
    if q.state = 'stopping' or q.state = 'stopped' and q.name <> all(locked) then
      raise exception using errcode = 'RV503', message = format('queue "%s" is being stopped; try again', q.name);
    end if;
    if q.state = 'stopped' then
      q.state := case when q.autostart then 'running' else 'not_started' end;
      update queues set state = q.state, state_since = clock_timestamp(), updated = clock_timestamp(),
        waiting_until = case when waiting_ms > 0 then clock_timestamp() + interval '1ms' * waiting_ms end
      where name = q.name;
      perform pg_notify('reeve_notify', 'queues');
    end if;
    if q.batches and exists (select from unnest(in_queues, in_batches) u(name, batch) where u.name = q.name and u.batch is null)
    then
      select * into b from batches where id = q.batch_id and closed_at is null;
      if not found then
        insert into batches (name, queue, implicit, callback_url, callback_secret, callback_tasks, callback_type, entry_type,
          exit_type, callback_attempts)
        values (q.name, q.name, true, q.callback_url, q.callback_secret, q.callback_tasks, q.callback_type, q.entry_type,
          q.exit_type, q.callback_attempts)
        returning * into b;
        update queues set batch_id = b.id, not_started = not_started or not autostart and state = 'paused'
        where name = q.name; -- not a setting: no notification
        if not q.autostart and q.state = 'running' then
          update queues set state = 'not_started', state_since = clock_timestamp(), updated = clock_timestamp() where name = q.name;
          perform pg_notify('reeve_notify', 'queues');
        end if;
      end if;
    end if;
  end loop;
  select u.batch, u.name, x as found into wrong
  from unnest(in_queues, in_batches) u(name, batch) left join batches x on x.id = u.batch
  where u.batch is not null and (x.id is null or x.queue <> u.name or x.closed_at is not null) limit 1;
  if found then
    perform unless_submitted(request);
    b := wrong.found;
    if b.id is null then
      raise exception using errcode = 'RV404', message = format('there is no batch %s', wrong.batch);
    elsif b.queue <> wrong.name then
      raise exception using errcode = 'RV400',
        message = format('batch %s is of queue "%s", the task of "%s"', b.id, b.queue, wrong.name);
    end if;
    raise exception using errcode = 'RV409', message = batch_closed(b);
  end if;
  return query
    select u.n, x.id, x.id is not null and x.entry_type is not null and x.phase in ('new', 'entry'),
      coalesce(x.phase = 'new', false)
    from unnest(in_queues, in_batches) with ordinality u(name, batch, n)
    left join queues s on s.name = u.name and s.batches
    left join batches x on x.id = coalesce(u.batch, s.batch_id)
    order by u.n;
end $$;
