-- Submits one task of submit_newer, with or without a pipeline's stage. Its key and task are locked. The task stays in
-- its batch; if it has none, or that batch is over, it joins the batch of the submit, which is locked, too; or, with
-- "inbox", a manager ingests it, which adds it to the batch of its queue and creates its route (route_id 0). Raises RV503
-- during a stop that would end the task, which keeps its id, like one that was submitted before the stop.
create or replace function submit_newer_one(spec jsonb) returns table (id bigint, restarted boolean, route_id int, priority int,
  version timestamptz, run_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
  k keys;
  t tasks;
  n tasks;
  h task_history;
  b batches;
  blocked boolean;
  stopping text;
  ingested boolean := false;
  newer bigint := (spec ->> 'version')::bigint;
  moment timestamptz := clock_timestamp();
  due timestamptz := greatest(to_timestamp((spec ->> 'run_at_us')::float8 / 1000000), moment) + interval '1ms' * (spec ->> 'delay_ms')::bigint;
begin
  select * into k from keys where queue = spec ->> 'queue' and key = spec ->> 'key';
  if not found then
    raise exception using errcode = '40001', message = 'a key has expired';
  end if;
  if k.version >= newer then
    return query select k.task_id, false, null::int, null::int, null::timestamptz, null::timestamptz;
    return;
  end if;
  select * into t from tasks where id = k.task_id for no key update;
  select name into stopping from queues
  where state = 'stopping' and (name = k.queue or name = t.queue and t.status = 'executing');
  if found then
    raise exception using errcode = 'RV503', message = format('queue "%s" is being stopped; try again', stopping);
  end if;
  update keys set version = newer,
    expires_at = greatest(moment + interval '1 year', moment + interval '1ms' * coalesce((spec ->> 'key_ttl_ms')::bigint,
      (select key_ttl_ms from queues where name = k.queue)))
  where queue = k.queue and key = k.key;
  spec := spec || jsonb_build_object('run_at', due);
  if t.id is null then
    -- One whose time in the history is over is being forgotten: a new task takes its place.
    delete from task_history
    where task_id = k.task_id and keep_until >= (statement_timestamp() at time zone 'UTC')::date returning * into h;
  end if;
  update batches x set pending = x.pending + 1, completed = x.completed - (h.status = 'completed')::int,
    failed = x.failed - (h.status <> 'completed')::int
  where x.id = h.batch_id and x.phase not in ('exit', 'ended') and h.task_id is distinct from x.entry_id
  returning * into b;
  if not found then
    select * into b from batches x where x.id = t.batch_id and x.phase not in ('exit', 'ended');
  end if;
  if not found then
    update batches x set submitted = x.submitted + 1, pending = x.pending + 1
    where x.id = (spec ->> 'batch_id')::bigint returning * into b;
  end if;
  blocked := b.entry_type is not null and b.phase in ('new', 'entry');
  if t.status = 'executing' then
    update tasks set restart = spec, cancel_requested_at = null, stop_code = null, batch_id = b.id where id = t.id;
    insert into task_events (task_id, version, event, actor, note)
      values (t.id, t.last_updated, 'newer_version', spec ->> 'source', format('version %s; runs again after this attempt', newer));
    return query select t.id, true, null::int, null::int, null::timestamptz, null::timestamptz;
    return;
  end if;
  n := task_of_spec(spec);
  n.route_id := spec ->> 'route_id';
  if spec ? 'inbox' and b.id is null then
    ingested := true;
    blocked := true;
  elsif n.route_id = 0 then
    n.route_id := route_of(n.queue, n.type);
  end if;
  n.run_at := case when blocked then 'infinity' else due end;
  n.blocked_run_at := case when blocked then due end;
  n.batch_id := b.id;
  if t.id is null then
    if h.token is not null then
      insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, error,
        error_code, run_at, last_updated, result, remark, stack_trace, stage, queue, type, details)
      values (h.task_id, h.token, h.attempt, h.worker_id, h.assignment_id, h.status, h.status, h.by_report, h.last_error,
        h.error_code, null, h.last_updated, h.result, h.remark, h.stack_trace, h.stage, h.queue, h.type,
        case when h.pipeline_id is not null then h.details end);
    elsif h.task_id is not null then
      insert into task_events (task_id, version, event) values (h.task_id, h.last_updated, h.status);
    end if;
    n.id := h.task_id;
    n.created := coalesce(h.created, moment);
    n.last_updated := greatest(clock_timestamp(), h.last_updated + interval '1us');
    n.first_started := h.first_started;
    n.started := h.started;
    n.worker_id := h.worker_id;
    n.remark := h.remark;
    t := task_insert(n);
    if t.id <> k.task_id then
      update keys set task_id = t.id where queue = k.queue and key = k.key;
    end if;
  else
    perform tasks_counted(array[t.id], -1);
    update tasks u set route_id = n.route_id, status = 'queued', ({renewed}) = row(n.{renewed}),
      attempt = 0, returns = 0, run_at = n.run_at, blocked_run_at = n.blocked_run_at, batch_id = n.batch_id, last_error = null,
      error_code = null, stack_trace = null, retrying = null, restart = null, cancel_requested_at = null, stop_code = null,
      last_updated = greatest(clock_timestamp(), u.last_updated + interval '1us')
    where u.id = t.id returning * into t;
    perform tasks_counted(array[t.id], 1);
  end if;
  if ingested then
    -- Locks a row of an earlier version, too: it must not be deleted, as one without a task, before this transaction has ended.
    insert into inbox (task_id) values (t.id) on conflict (task_id) do update set task_id = excluded.task_id;
  end if;
  insert into task_events (task_id, version, event, actor, note)
    values (t.id, t.last_updated, 'restarted', spec ->> 'source', format('version %s', newer));
  return query select t.id, true, t.route_id, t.priority, t.last_updated, t.run_at;
end $$;
