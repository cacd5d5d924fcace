-- Pipelines: tasks that pass through stages, the result of one being the input of the next.

-- Definitions. They are never changed: defining a pipeline again makes a new row and replaces the old one, and tasks go on
-- as they began. stages: in order, each {"name", "type", "next" (a stage's name; not there: the last one), "max_attempts",
-- "timeout_ms", "retry_base_ms", "retry_max_ms", "retry_policy" or not there, "priority" or not there: it stays}.
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
-- Of an attempt that ended a stage: which, and what its input was; `result` is the next one's.
alter table task_attempts
  add column stage text,
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
  end if;
  spec := jsonb_build_object('queue', 'default', 'details', '', 'priority', 0, 'delay_ms', 0, 'timeout_ms', 60000, 'source', '')
    || spec;
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
