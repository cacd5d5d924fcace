-- Starts, stops, pauses, resumes, purges or deletes a queue, as far as that is done at once: a manager ends the tasks
-- of a stop or a purge gradually. Returns the queue's state, and the newest task's id when the call first came.
create or replace function queue_control(request uuid, of_queue text, action text, by text) returns table (state text, newest bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  call record := queue_request(request);
  q queues;
  creates boolean;
  becomes text;
  live bigint;
begin
  -- Creates a row to lock, so that one of two calls comes first. A queue may be paused before its first task.
  loop
    creates := not call.repeated and (action = 'pause' or action = 'stop' and queue_known(of_queue));
    if creates then
      insert into queues (name) values (of_queue) on conflict do nothing;
    end if;
    select * into q from queues where name = of_queue for no key update;
    exit when found or not creates;
  end loop; -- another session has just deleted the row
  if call.repeated then
    return query select coalesce(q.state, 'running'), call.newest;
    return;
  end if;
  if q.name is null and not queue_known(of_queue) then
    raise exception using errcode = 'RV404',
      message = format('there is no queue "%s": it has no settings and never had a task', of_queue);
  end if;
  becomes := coalesce(q.state, 'running');
  if becomes = 'stopping' and action in ('start', 'pause', 'resume') then
    raise exception using errcode = 'RV409', message = format('queue "%s" is being stopped; try again', of_queue);
  elsif becomes = 'stopped' and action in ('pause', 'resume') then
    raise exception using errcode = 'RV409', message = format('queue "%s" is stopped; start it, or submit a task', of_queue);
  elsif becomes = 'not_started' and action = 'resume' then
    raise exception using errcode = 'RV409', message = format('queue "%s" is not paused: it waits to be started', of_queue);
  end if;
  case action
  when 'start' then
    becomes := 'running';
  when 'pause' then
    becomes := 'paused';
  when 'resume' then
    becomes := case when becomes = 'paused' and q.not_started then 'not_started' else 'running' end;
  when 'stop' then
    becomes := case when becomes = 'stopped' then 'stopped' else 'stopping' end;
  when 'purge' then
    perform queue_event(of_queue, 'queue_purged', by);
  when 'delete' then
    select count(*) into live from tasks
    where route_id = any(array(select id from routes where queue = of_queue)) and lane is null;
    if live > 0 then
      raise exception using errcode = 'RV409', message = format('queue "%s" has %s live task%s; purge or stop it first', of_queue,
        live, case when live > 1 then 's' else '' end);
    end if;
    becomes := 'running';
    if q.name is not null then
      update batches b set closed_at = clock_timestamp()
      where b.queue = of_queue and b.implicit and b.closed_at is null and b.phase <> 'ended';
      delete from queues where name = of_queue;
      delete from limits where queue = of_queue;
      perform queue_event(of_queue, 'queue_deleted', by);
    end if;
    return query select becomes, call.newest;
    return;
  end case;
  if becomes <> coalesce(q.state, 'running') then
    -- Submits lock the queue or a batch: those that came first are committed now, and the newest task's id is that of the last.
    if becomes = 'stopping' then
      update batches b set closed_at = coalesce(closed_at, clock_timestamp()), stopped = true
      where b.id = any(array(select id from batches where queue = of_queue and phase <> 'ended'
        order by id for no key update));
    end if;
    update queues set state = becomes, state_since = clock_timestamp(), updated = clock_timestamp(),
      not_started = becomes = 'paused' and state = 'not_started',
      waiting_until = case when action = 'start' and waiting_ms > 0 then clock_timestamp() + interval '1ms' * waiting_ms
        else waiting_until end,
      stopped_at = case when becomes = 'stopping' then clock_timestamp() else stopped_at end,
      stopped_by = case when becomes = 'stopping' then by else stopped_by end,
      stopped_id = case when becomes = 'stopping' then (select case when is_called then last_value else 0 end from tasks_id_seq)
        else stopped_id end
    where name = of_queue;
    perform queue_event(of_queue, case action when 'start' then 'queue_started' when 'pause' then 'queue_paused'
      when 'resume' then 'queue_resumed' else 'queue_stop_requested' end, by);
  end if;
  return query select becomes, call.newest;
end $$;
