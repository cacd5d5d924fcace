-- Pipelines: tasks that pass through stages, the result of one being the input of the next.

-- Definitions. They are never changed: defining a pipeline again makes a new row and replaces the old one, and tasks go on
-- as they began. stages: in order, each {"name", "type", "next" (a stage's name; not there: the task ends), "max_attempts",
-- "timeout_ms", "retry_base_ms", "retry_max_ms", "retry_policy" or not there, "priority" or not there: it stays}. No stage is
-- called "end": with that name a handler ends the pipeline.
create table pipelines (
  id bigint generated always as identity primary key,
  name text not null,
  stages jsonb not null,
  max_steps int not null default 100,      -- a task goes through so many stages at most, whatever its handlers choose
  source text not null default '',
  created timestamptz not null default clock_timestamp(),
  replaced_at timestamptz);
create unique index pipelines_current on pipelines (name) where replaced_at is null;

-- A task of a pipeline is one task from the first stage to the last: its type, details, attempts, time-out and rests are those
-- of the stage it is in. step: how many stages it has entered, this one too.
alter table tasks
  add column pipeline_id bigint,
  add column stage text,
  add column step int;
alter table task_history
  add column pipeline_id bigint,
  add column stage text,
  add column step int,
  add column recoverable boolean;          -- of a dead one: whether its last error was one that is tried again; null: another end
-- Of an attempt of a pipeline's task: its stage and type. Of one that ended a stage, its input too; `result` is the next one's.
alter table task_attempts
  add column stage text,
  add column type text,
  add column details text;

-- Views, with what is new.
create or replace view all_tasks as
  select id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, details,
    null::text as result, last_error, error_code, worker_id, last_updated, created,
    case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
    case when status = 'executing' then last_updated else started end as started,
    null::timestamptz as finished, expiry, cancel_requested_at is not null as cancel_requested, lane, batch_id, route_id,
    remark, stack, version, pipeline_id, stage, step, null::boolean as recoverable
  from tasks
  union all
  select task_id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, details,
    result, last_error, error_code, worker_id, last_updated, created, first_started, started,
    last_updated, null, false, lane, batch_id, route_id, remark, stack, version, pipeline_id, stage, step, recoverable
  from task_history;

-- Defines a pipeline, or replaces its definition; the same again changes nothing. The definition is checked already. Answers
-- the row that stands.
create function pipeline_define(request uuid, with_name text, with_stages jsonb, steps int, by text, out standing pipelines,
  out changed boolean) language plpgsql as $$
declare
  made bigint := nextval(pg_get_serial_sequence('pipelines', 'id'));
  before bigint := batch_request(request, 'pipeline_define', made);
begin
  if before is not null then
    changed := before > 0;
    select * into standing from pipelines where id = abs(before);
    return;
  end if;
  loop
    select * into standing from pipelines where name = with_name and replaced_at is null for no key update;
    changed := not found or standing.stages <> with_stages or standing.max_steps <> steps;
    if not changed then
      update requests set task_ids = array[-standing.id] where id = request; -- a copy of the call is told that, too
      return;
    end if;
    update pipelines set replaced_at = clock_timestamp() where id = standing.id;
    insert into pipelines (id, name, stages, max_steps, source) overriding system value
    values (made, with_name, with_stages, steps, by) on conflict do nothing
    returning * into standing;
    if found then
      return;
    end if;
  end loop; -- somebody else's came first: it is looked at again
end $$;

-- How a task of a pipeline begins: as a part of its spec (see submit_task).
create function pipeline_start(wanted text) returns jsonb language plpgsql stable as $$
declare
  p pipelines;
begin
  select * into p from pipelines where name = wanted and replaced_at is null;
  if not found then
    raise exception using errcode = 'RV404', message = format('there is no pipeline "%s"', wanted);
  end if;
  return p.stages -> 0 || jsonb_build_object('pipeline_id', p.id, 'stage', p.stages -> 0 ->> 'name', 'step', 1);
end $$;

-- Makes the routes of all stages of a pipeline's tasks in a queue, so that no stage has to.
create function pipeline_routes(of_pipeline bigint, in_queue text) returns void language sql as $$
  select route_of(in_queue, type) from (
    select distinct s ->> 'type' as type from pipelines p, jsonb_array_elements(p.stages) s where p.id = of_pipeline
    order by 1) types
$$;

-- What follows when a task of a pipeline has completed a stage, `chosen` being what its handler named, if it did. `next`: the
-- stage that is begun; null: none. `error` and `code`: the task ends dead.
create function pipeline_next(of_pipeline bigint, from_stage text, of_step int, chosen text, out next jsonb, out error text,
  out code text) language plpgsql stable as $$
declare
  p pipelines;
  wanted text;
begin
  select * into p from pipelines where id = of_pipeline;
  if not found then
    error := format('stage "%s" was named, and the task is of no pipeline', left(chosen, 255));
    code := 'unknown_stage';
    return;
  end if;
  if chosen = 'end' then
    return;
  end if;
  wanted := coalesce(chosen, (select s ->> 'next' from jsonb_array_elements(p.stages) s where s ->> 'name' = from_stage));
  if wanted is null then
    return;
  end if;
  select s into next from jsonb_array_elements(p.stages) s where s ->> 'name' = wanted;
  if next is null then
    error := format('stage "%s" was named; pipeline "%s" has %s', left(wanted, 255), p.name,
      (select string_agg(format('"%s"', s ->> 'name'), ', ' order by n)
       from jsonb_array_elements(p.stages) with ordinality u(s, n)));
    code := 'unknown_stage';
  elsif of_step >= p.max_steps then
    error := format('stage "%s" would be the %s. that is begun; pipeline "%s" allows %s', wanted, of_step + 1, p.name, p.max_steps);
    code := 'too_many_steps';
    next := null;
  end if;
end $$;

-- Submits one task, in the transaction of whoever calls; the managers are told at its commit. `spec` is checked already; of
-- "queue", "type", "details", "priority", "run_at" (a time), "delay_ms", "key", "key_ttl_ms", "version", "max_attempts",
-- "timeout_ms", "retry_base_ms", "retry_max_ms", "retry_policy", "batch_id", "pipeline" (a name; then what stages say is not
-- given) and "source" it has what is said, the rest is as its queue has it. Takes locks as any submit does: of its queue, if
-- that has settings, its key, its batch. For short transactions only.
create function submit_task(spec jsonb, out id bigint, out existing boolean, out restarted boolean) language plpgsql as $$
#variable_conflict use_column
declare
  q queues;
  b record;
  way int;
  moment timestamptz;
  due timestamptz;
  newer record;
begin
  spec := jsonb_strip_nulls(spec);
  if spec ? 'pipeline' then
    spec := spec - 'pipeline' || pipeline_start(spec ->> 'pipeline');
    perform pipeline_routes((spec ->> 'pipeline_id')::bigint, coalesce(spec ->> 'queue', 'default'));
  end if;
  spec := jsonb_build_object('queue', 'default', 'details', '', 'priority', 0, 'delay_ms', 0, 'timeout_ms', 60000, 'source', '')
    || spec;
  if spec ? 'key' then
    perform keys_await(array[spec ->> 'queue'], array[spec ->> 'key']);
  end if;
  select * into b from submit_batches(gen_random_uuid(), array[spec ->> 'queue'], array[(spec ->> 'batch_id')::bigint],
    array[case when spec ? 'version' then spec ->> 'key' end]);
  select * into q from queues where name = spec ->> 'queue';
  if not spec ? 'retry_base_ms' then
    spec := spec || jsonb_build_object('retry_base_ms', queue_retry_base_ms(q, 1000), 'retry_max_ms',
      coalesce(q.retry_max_ms, 3600000), 'retry_policy', q.retry_policy);
  elsif (spec ->> 'retry_base_ms')::bigint = 0 then -- a linear one: it begins with the resting period
    spec := spec || jsonb_build_object('retry_base_ms', coalesce(q.resting_ms, 0));
  end if;
  spec := jsonb_build_object('max_attempts', coalesce(q.max_attempts, 5)) || spec;
  way := route_of(spec ->> 'queue', spec ->> 'type');
  id := nextval('tasks_id_seq');
  existing := false;
  restarted := false;
  moment := clock_timestamp();
  if spec ? 'key' then
    delete from keys k where k.queue = spec ->> 'queue' and k.key = spec ->> 'key' and k.expires_at <= moment;
    insert into keys (queue, key, task_id, keep_ms, expires_at, version)
    values (spec ->> 'queue', spec ->> 'key', id, (spec ->> 'key_ttl_ms')::bigint,
      case when spec ? 'version' then greatest(moment + interval '1 year', moment + interval '1ms' * (spec ->> 'key_ttl_ms')::bigint)
        else moment + interval '1ms' * (spec ->> 'key_ttl_ms')::bigint end, (spec ->> 'version')::bigint)
    on conflict do nothing;
    existing := not found;
  end if;
  if existing then
    if spec ? 'version' then
      select * into newer from submit_newer(array[spec || jsonb_build_object('route_id', way, 'batch_id', b.batch_id, 'run_at_us',
        (extract(epoch from (spec ->> 'run_at')::timestamptz) * 1000000)::bigint)]);
      id := newer.id;
      restarted := newer.restarted;
    else
      select k.task_id into id from keys k where k.queue = spec ->> 'queue' and k.key = spec ->> 'key';
      if not found then
        raise exception using errcode = '40001', message = 'a key expired meanwhile';
      end if;
    end if;
  else
    due := greatest((spec ->> 'run_at')::timestamptz, moment) + interval '1ms' * (spec ->> 'delay_ms')::bigint;
    insert into tasks (id, route_id, priority, queue, type, details, run_at, held_run_at, max_attempts, timeout_ms,
      retry_base_ms, retry_max_ms, retry_policy, key, version, batch_id, source, pipeline_id, stage, step, created, last_updated)
    overriding system value
    values (id, way, (spec ->> 'priority')::int, spec ->> 'queue', spec ->> 'type', spec ->> 'details',
      case when b.held then 'infinity' else due end, case when b.held then due end, (spec ->> 'max_attempts')::int,
      (spec ->> 'timeout_ms')::bigint, (spec ->> 'retry_base_ms')::bigint, (spec ->> 'retry_max_ms')::bigint,
      nullif(spec -> 'retry_policy', 'null'), spec ->> 'key', (spec ->> 'version')::bigint, b.batch_id, spec ->> 'source',
      (spec ->> 'pipeline_id')::bigint, spec ->> 'stage', (spec ->> 'step')::int, moment, moment);
    if b.batch_id is not null then
      update batches x set submitted = x.submitted + 1, pending = x.pending + 1 where x.id = b.batch_id;
      if b.begins then
        perform batches_begin(array[b.batch_id]);
      end if;
    end if;
  end if;
  -- Equal notifications of a transaction are sent once.
  perform pg_notify('reeve_wake', format('0 %s %s %s', way, spec ->> 'priority', (extract(epoch from now()) * 1000000)::bigint));
end $$;

-- As before, and with a pipeline's stage, or out of it: one of submit_newer's. Its key and task are locked. It stays in its
-- batch; if it has none, or that is over, it comes into the submit's, which is locked, too.
create or replace function submit_newer_one(spec jsonb) returns table (id bigint, restarted boolean, route_id int, priority int,
  version timestamptz, run_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
  k keys;
  t tasks;
  h task_history;
  b batches;
  held boolean;
  newer bigint := (spec ->> 'version')::bigint;
  moment timestamptz := clock_timestamp();
  due timestamptz := greatest(to_timestamp((spec ->> 'run_at_us')::float8 / 1000000), moment) + interval '1ms' * (spec ->> 'delay_ms')::bigint;
begin
  select * into k from keys where queue = spec ->> 'queue' and key = spec ->> 'key';
  if not found then
    raise exception using errcode = '40001', message = 'a key expired meanwhile';
  end if;
  if k.version >= newer then
    return query select k.task_id, false, null::int, null::int, null::timestamptz, null::timestamptz;
    return;
  end if;
  update keys set version = newer,
    expires_at = greatest(moment + interval '1 year', moment + interval '1ms' * (spec ->> 'key_ttl_ms')::bigint)
  where queue = k.queue and key = k.key;
  spec := spec || jsonb_build_object('run_at', due);
  select * into t from tasks where id = k.task_id for no key update;
  if not found then
    delete from task_history where task_id = k.task_id returning * into h;
  end if;
  update batches x set pending = x.pending + 1, success = x.success - (h.status = 'completed')::int,
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
  held := b.entry_type is not null and b.phase in ('new', 'entry');
  if t.status = 'executing' then
    update tasks set restart = spec, cancel_requested_at = null, stop_code = null, batch_id = b.id where id = t.id;
    insert into task_events (task_id, version, event, actor, note)
      values (t.id, t.last_updated, 'newer_version', spec ->> 'source', format('version %s; runs again after this attempt', newer));
    return query select t.id, true, null::int, null::int, null::timestamptz, null::timestamptz;
    return;
  end if;
  if t.id is null then
    if h.token is not null then
      insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, error,
        error_code, run_at, last_updated, result, remark, stack, stage, queue, type, details)
      values (h.task_id, h.token, h.attempt, h.worker_id, h.assignment_id, h.status, h.status, h.by_report, h.last_error,
        h.error_code, null, h.last_updated, h.result, h.remark, h.stack, h.stage, h.queue, h.type,
        case when h.pipeline_id is not null then h.details end);
    elsif h.task_id is not null then
      insert into task_events (task_id, version, event) values (h.task_id, h.last_updated, h.status);
    end if;
    insert into tasks (id, route_id, queue, type, details, status, run_at, priority, max_attempts, timeout_ms, retry_base_ms,
      retry_max_ms, key, source, created, last_updated, first_started, started, worker_id, remark) overriding system value
    select coalesce(h.task_id, nextval('tasks_id_seq')), (spec ->> 'route_id')::int, spec ->> 'queue', spec ->> 'type', '',
      'queued', due, 0, 1, 1, 1, 1, spec ->> 'key', '', coalesce(h.created, moment),
      greatest(moment, h.last_updated + interval '1us'), h.first_started, h.started, h.worker_id, h.remark
    returning * into t;
    if t.id <> k.task_id then
      update keys set task_id = t.id where queue = k.queue and key = k.key;
    end if;
  end if;
  update tasks u set route_id = (spec ->> 'route_id')::int, type = spec ->> 'type', details = spec ->> 'details',
    priority = (spec ->> 'priority')::int, status = 'queued', attempt = 0, returns = 0,
    run_at = case when held then 'infinity' else due end, held_run_at = case when held then due end, batch_id = b.id,
    max_attempts = (spec ->> 'max_attempts')::int, timeout_ms = (spec ->> 'timeout_ms')::bigint,
    retry_base_ms = (spec ->> 'retry_base_ms')::bigint, retry_max_ms = (spec ->> 'retry_max_ms')::bigint,
    retry_policy = case when jsonb_typeof(spec -> 'retry_policy') = 'object' then spec -> 'retry_policy' end,
    source = spec ->> 'source', version = newer, last_error = null, error_code = null, stack = null, restart = null,
    cancel_requested_at = null, stop_code = null, pipeline_id = (spec ->> 'pipeline_id')::bigint, stage = spec ->> 'stage',
    step = (spec ->> 'step')::int,
    last_updated = greatest(clock_timestamp(), u.last_updated + interval '1us')
  where u.id = t.id returning * into t;
  insert into task_events (task_id, version, event, actor, note)
    values (t.id, t.last_updated, 'restarted', spec ->> 'source', format('version %s', newer));
  return query select t.id, true, t.route_id, t.priority, t.last_updated, t.run_at;
end $$;
