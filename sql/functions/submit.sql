-- Submits a task in the caller's transaction: it exists when that commits, or not at all. Returns its id, or the id of
-- the task that has the key already. Call it with named arguments, which docs/sql.md describes. `details` may be of any
-- type: json and jsonb are stored as text. It runs with its owner's rights, so that applications need none on the tables; so
-- it does not cast details to text: a role may define casts of its own types.
create or replace function submit(
  type text default null,
  details anycompatible default ''::text,
  queue text default null,
  priority int default null,
  delay interval default null,
  run_at timestamptz default null,
  key text default null,
  key_ttl interval default null,
  max_attempts int default null,
  timeout interval default null,
  backoff text default null,
  jitter int default null,
  batch_id bigint default null,
  pipeline text default null,
  source text default null,
  traceparent text default null,
  version bigint default null
) returns bigint language plpgsql security definer set search_path = reeve, pg_temp as $$
#variable_conflict use_column
declare
  q queues;
  b batches;
  spec jsonb := '{}';
  of_type text := submit.type;
  input constant text := format('%s', submit.details);
  in_queue text := coalesce(submit.queue, 'default');
  submitter constant text := application_role(); -- it uses only keys of its own tasks
  actor text := coalesce(submitter || '/' || nullif(submit.source, ''), submit.source, session_user);
  checked record;
  ttl_ms bigint;
  rests record;
  way int;
  waits boolean;
  made bigint;
  moment timestamptz;
  due timestamptz;
  second bigint;
  owner bigint;
  newer record;
  t tasks;
begin
  select * into checked from task_check(of_type, input, in_queue, submit.priority, submit.delay, submit.key, submit.key_ttl,
    submit.max_attempts, submit.timeout, submit.jitter, submit.backoff, submit.pipeline, actor, submit.traceparent);
  if submit.pipeline is not null then
    spec := pipeline_start(submit.pipeline);
    of_type := spec ->> 'type';
    in_queue := coalesce(spec ->> 'queue', in_queue);
  end if;
  if submit.delay is not null and submit.run_at is not null then
    raise exception using errcode = '22023', message = 'delay and run_at cannot be combined';
  elsif not isfinite(submit.run_at) or submit.run_at not between '1970-01-01 00:00Z' and '9999-12-31 23:59:59Z' then
    raise exception using errcode = '22023',
      message = format('run_at is %s; it must be from 1970-01-01 to 9999-12-31', submit.run_at);
  elsif submit.version is not null and submit.key is null then
    raise exception using errcode = '22023', message = 'version needs a key';
  elsif submit.version < 1 then
    raise exception using errcode = '22023', message = format('version is %s; it must be at least 1', submit.version);
  elsif submit.version is not null and submit.batch_id is not null then
    raise exception using errcode = '22023', message = 'version cannot be combined with batch_id by SQL; use a call';
  end if;
  if submit.batch_id is not null then
    select * into b from batches where id = submit.batch_id;
    if b.id is null then
      raise exception using errcode = '22023', message = format('there is no batch %s', submit.batch_id);
    elsif b.queue <> coalesce(spec ->> 'queue', submit.queue, b.queue) then
      raise exception using errcode = '22023',
        message = format('batch %s is of queue "%s", the task of "%s"', b.id, b.queue, coalesce(spec ->> 'queue', submit.queue));
    elsif b.closed_at is not null then
      raise exception using errcode = '55000', message = batch_closed(b);
    end if;
    in_queue := b.queue;
  end if;
  select * into q from queues where name = in_queue;
  if submit.backoff is not null then
    spec := spec || backoff_spec(submit.backoff, submit.jitter);
  end if;
  if spec ->> 'retry_base_ms' = '0' and not spec ? 'pipeline_id' then -- linear: it begins with the resting period
    spec := spec || jsonb_build_object('retry_base_ms', coalesce(q.resting_ms, 0));
  end if;
  if spec ? 'retry_base_ms' then
    select (spec ->> 'retry_base_ms')::bigint as base_ms, coalesce((spec ->> 'retry_max_ms')::bigint, DEFAULT_RETRY_MAX_MS) as max_ms,
      nullif(spec -> 'retry_policy', 'null') as policy into rests;
  else
    select queue_retry_base_ms(q, DEFAULT_RETRY_BASE_MS) as base_ms, coalesce(q.retry_max_ms, DEFAULT_RETRY_MAX_MS) as max_ms, q.retry_policy as policy
    into rests;
  end if;

  ttl_ms := coalesce(checked.key_ttl_ms, nullif(q.key_ttl_ms, 0));
  select id into way from routes where queue = in_queue and type = of_type;
  -- All stages of a pipeline must have routes from the beginning.
  waits := way is null or submit.batch_id is not null or coalesce(q.batches, false) or submit.pipeline is not null and exists (
    select from pipelines p, jsonb_array_elements(p.stages) s
    where p.id = (spec ->> 'pipeline_id')::bigint
      and not exists (select from routes r where r.queue = coalesce(s ->> 'queue', in_queue) and r.type = s ->> 'type'));
  made := nextval('tasks_id_seq');
  moment := clock_timestamp();
  due := greatest(submit.run_at, moment) + coalesce(submit.delay, '0');
  t.route_id := coalesce(way, 0);
  t.priority := coalesce((spec ->> 'priority')::int, submit.priority, q.priority, 0);
  t.queue := in_queue;
  t.type := of_type;
  t.details := input;
  t.max_attempts := coalesce(submit.max_attempts, (spec ->> 'max_attempts')::int, q.max_attempts, DEFAULT_ATTEMPTS);
  t.timeout_ms := coalesce(checked.timeout_ms, (spec ->> 'timeout_ms')::bigint, q.timeout_ms, DEFAULT_TIMEOUT_MS);
  t.retry_base_ms := rests.base_ms;
  t.retry_max_ms := rests.max_ms;
  t.retry_policy := rests.policy;
  t.key := submit.key;
  t.source := actor;
  t.traceparent := submit.traceparent;
  t.version := submit.version;
  t.pipeline_id := spec ->> 'pipeline_id';
  t.stage := spec ->> 'stage';
  t.step := spec ->> 'step';
  if submit.key is not null then
    loop
      delete from keys where queue = in_queue and key = submit.key and expires_at <= clock_timestamp();
      insert into keys (queue, key, task_id, keep_ms, expires_at, version)
      values (in_queue, submit.key, made, ttl_ms, greatest(clock_timestamp() + interval '1ms' * ttl_ms,
        case when submit.version is not null then clock_timestamp() + interval '1 year' end), submit.version)
      on conflict do nothing;
      exit when found;
      select task_id into owner from keys where queue = in_queue and key = submit.key;
      if found and submitter is not null and exists (
        select from (select source from tasks where id = owner union all select source from task_history where task_id = owner) o
        where o.source <> submitter and not starts_with(o.source, submitter || '/')) then
        raise exception using errcode = '42501',
          message = format('the key "%s" in the queue "%s" is of another caller''s task', submit.key, in_queue);
      elsif found and submit.version is not null then
        select * into newer from submit_newer(array[jsonb_strip_nulls(to_jsonb(t)) || jsonb_build_object('run_at_us', time_us(due),
          'delay_ms', 0, 'key_ttl_ms', ttl_ms) || case when waits then '{"inbox": true}' else '{}' end::jsonb]);
        if newer.run_at is not null then
          perform pg_notify('reeve_notify', case when isfinite(newer.run_at)
            then format('0 %s %s %s', newer.route_id, newer.priority, time_us(newer.run_at)) else 'inbox' end);
        end if;
        return newer.id;
      elsif found then
        return owner;
      end if;
      made := nextval('tasks_id_seq'); -- the key was deleted between the two statements
    end loop;
  end if;
  moment := clock_timestamp();
  due := greatest(submit.run_at, moment) + coalesce(submit.delay, '0');
  t.id := made;
  t.run_at := case when waits then 'infinity' else due end;
  t.blocked_run_at := case when waits then due end;
  t.created := moment;
  perform task_insert(t);
  if waits then
    insert into inbox (task_id, batch_id) values (made, submit.batch_id);
    perform pg_notify('reeve_notify', 'inbox');
  else
    -- Tasks that are due in the same second share a notification: equal notifications of a transaction are sent once.
    second := floor(extract(epoch from due))::bigint;
    perform pg_notify('reeve_notify', format('0 %s %s %s %s', way, t.priority,
      second * 1000000, (second + 1) * 1000000));
  end if;
  return made;
end $$;

-- Overloads that this transaction has not written are another build's, with other parameters. They go, and the roles that
-- may execute them may execute those of this file. Outside of a transaction this fails.
do $$
declare
  written constant text := (select string_agg(oid::regprocedure::text, ', ') from pg_proc
    where pronamespace = 'reeve'::regnamespace and proname = 'submit' and age(xmin) <= 0);
  old record;
begin
  execute format('revoke execute on function %s from public', written);
  for old in
    select p.oid::regprocedure as name, array(select g.grantee::regrole from aclexplode(p.proacl) g where g.grantee <> 0) as roles
    from pg_proc p where p.pronamespace = 'reeve'::regnamespace and p.proname = 'submit' and age(p.xmin) > 0
  loop
    execute format('drop function %s', old.name);
    for n in 1 .. cardinality(old.roles) loop
      execute format('grant execute on function %s to %s', written, old.roles[n]);
    end loop;
  end loop;
end $$;
