-- Submits a task in the caller's transaction: it exists when that commits, or not at all. Returns its id, or the id of
-- the task that has the key already. Call it with named arguments, which docs/sql.md describes. `details` may be of any
-- type: json and jsonb are stored as text. It runs with its owner's rights, so that applications need none on the tables.
create or replace function submit(
  type text default null,
  details anycompatible default ''::text,
  queue text default null,
  priority int default 0,
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
  input constant text := coalesce(submit.details::text, '');
  in_queue text := coalesce(submit.queue, 'default');
  actor text := coalesce(submit.source, session_user::text);
  ttl_ms bigint;
  timeout_ms bigint;
  rests record;
  way int;
  waits boolean;
  made bigint;
  moment timestamptz;
  due timestamptz;
  second bigint;
  most bigint;
  owner bigint;
  newer record;
  t tasks;
begin
  if submit.pipeline is not null then
    if of_type is not null or submit.max_attempts is not null or submit.timeout is not null or submit.backoff is not null then
      raise exception using errcode = '22023', message = format('%s cannot be combined with pipeline, whose stages set it',
        case when of_type is not null then 'type' when submit.max_attempts is not null then 'max_attempts'
          when submit.timeout is not null then 'timeout' else 'backoff' end);
    elsif not exists (select from pipelines where name = submit.pipeline and replaced_at is null) then
      raise exception using errcode = '22023', message = format('there is no pipeline "%s"', submit.pipeline);
    end if;
    spec := pipeline_start(submit.pipeline);
    of_type := spec ->> 'type';
  elsif of_type is null then
    raise exception using errcode = '22004', message = 'type is NULL';
  end if;
  perform check_name('type', of_type);
  perform check_name('queue', in_queue);
  perform check_name('source', actor);
  if actor ~ '^callback of batch [0-9]+$' then
    raise exception using errcode = '22023',
      message = 'source is reserved: it marks the callback tasks that Reeve makes; choose another';
  end if;
  if submit.key is not null then
    perform check_name('key', submit.key);
  end if;
  if octet_length(input) > 0 then
    most := max_details();
    if octet_length(input) > most then
      raise exception using errcode = '22001',
        message = format('details has %s bytes; at most %s are taken', octet_length(input), most);
    end if;
  end if;
  if submit.priority is null then
    raise exception using errcode = '22004', message = 'priority is NULL';
  elsif submit.priority not between -LIMIT_PRIORITY and LIMIT_PRIORITY then
    raise exception using errcode = '22023',
      message = format('priority is %s; it must be from -LIMIT_PRIORITY to LIMIT_PRIORITY', submit.priority);
  end if;
  if submit.max_attempts not between 1 and LIMIT_ATTEMPTS then
    raise exception using errcode = '22023', message = format('max_attempts is %s; it must be from 1 to LIMIT_ATTEMPTS', submit.max_attempts);
  end if;
  if submit.delay is not null then
    perform check_interval('delay', submit.delay, 0, LIMIT_DELAY_DAYS * 86400000::bigint);
    if submit.run_at is not null then
      raise exception using errcode = '22023', message = 'delay and run_at cannot be combined';
    end if;
  end if;
  if not isfinite(submit.run_at) or submit.run_at not between '1970-01-01 00:00Z' and '9999-12-31 23:59:59Z' then
    raise exception using errcode = '22023',
      message = format('run_at is %s; it must be from 1970-01-01 to 9999-12-31', submit.run_at);
  end if;
  if submit.key_ttl is not null then
    if submit.key is null then
      raise exception using errcode = '22023', message = 'key_ttl needs a key';
    end if;
    ttl_ms := check_interval('key_ttl', submit.key_ttl, 1, LIMIT_DELAY_DAYS * 86400000::bigint);
  end if;
  if submit.version is not null then
    if submit.key is null then
      raise exception using errcode = '22023', message = 'version needs a key';
    elsif submit.version < 1 then
      raise exception using errcode = '22023', message = format('version is %s; it must be at least 1', submit.version);
    elsif submit.batch_id is not null then
      raise exception using errcode = '22023', message = 'version cannot be combined with batch_id by SQL; use a call';
    end if;
  end if;
  timeout_ms := coalesce(check_interval('timeout', submit.timeout, 1, LIMIT_TIMEOUT_DAYS * 86400000::bigint), (spec ->> 'timeout_ms')::bigint, DEFAULT_TIMEOUT_MS);
  if submit.jitter not between 0 and 100 then
    raise exception using errcode = '22023', message = format('jitter is %s; it must be from 0 to 100 (percent)', submit.jitter);
  elsif submit.jitter is not null and submit.backoff is null then
    raise exception using errcode = '22023', message = 'jitter needs backoff';
  end if;

  -- A W3C traceparent; only later versions than 00 may go on after the flags.
  if submit.traceparent !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[^[:cntrl:]]*)?$'
      or octet_length(submit.traceparent) > (case when submit.traceparent like '00%' then 55 else LIMIT_NAME_BYTES end) then
    raise exception using errcode = '22023', message = format('traceparent is "%s"; it must be a W3C traceparent, '
      'version-traceid-parentid-flags in lower case hexadecimal digits', left(submit.traceparent, 100));
  end if;

  if submit.batch_id is not null then
    select * into b from batches where id = submit.batch_id;
    if b.id is null then
      raise exception using errcode = '22023', message = format('there is no batch %s', submit.batch_id);
    elsif b.queue <> coalesce(submit.queue, b.queue) then
      raise exception using errcode = '22023',
        message = format('batch %s is of queue "%s", the task of "%s"', b.id, b.queue, submit.queue);
    elsif b.closed_at is not null then
      raise exception using errcode = '55000', message = batch_closed(b);
    end if;
    in_queue := b.queue;
  end if;
  select * into q from queues where name = in_queue;
  if submit.backoff is not null then
    spec := spec || backoff_spec(submit.backoff);
    if submit.jitter is not null then
      spec := spec || jsonb_build_object('retry_policy', coalesce(nullif(spec -> 'retry_policy', 'null'), '{"kind": "exponential"}')
        || jsonb_build_object('jitter_percent', submit.jitter));
    end if;
  end if;
  if spec ->> 'retry_base_ms' = '0' then -- linear: it begins with the resting period
    spec := spec || jsonb_build_object('retry_base_ms', coalesce(q.resting_ms, 0));
  end if;
  if spec ? 'retry_base_ms' then
    select (spec ->> 'retry_base_ms')::bigint as base_ms, coalesce((spec ->> 'retry_max_ms')::bigint, DEFAULT_RETRY_MAX_MS) as max_ms,
      nullif(spec -> 'retry_policy', 'null') as policy into rests;
  else
    select queue_retry_base_ms(q, DEFAULT_RETRY_BASE_MS) as base_ms, coalesce(q.retry_max_ms, DEFAULT_RETRY_MAX_MS) as max_ms, q.retry_policy as policy
    into rests;
  end if;

  ttl_ms := coalesce(ttl_ms, nullif(q.key_ttl_ms, 0));
  select id into way from routes where queue = in_queue and type = of_type;
  -- All stages of a pipeline must have routes from the beginning.
  waits := way is null or submit.batch_id is not null or coalesce(q.batches, false) or submit.pipeline is not null and exists (
    select from pipelines p, jsonb_array_elements(p.stages) s
    where p.id = (spec ->> 'pipeline_id')::bigint
      and not exists (select from routes r where r.queue = in_queue and r.type = s ->> 'type'));
  made := nextval('tasks_id_seq');
  moment := clock_timestamp();
  due := greatest(submit.run_at, moment) + coalesce(submit.delay, '0');
  t.route_id := coalesce(way, 0);
  t.priority := coalesce((spec ->> 'priority')::int, submit.priority);
  t.queue := in_queue;
  t.type := of_type;
  t.details := input;
  t.max_attempts := coalesce(submit.max_attempts, (spec ->> 'max_attempts')::int, q.max_attempts, DEFAULT_ATTEMPTS);
  t.timeout_ms := timeout_ms;
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
      if found and submit.version is not null then
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
