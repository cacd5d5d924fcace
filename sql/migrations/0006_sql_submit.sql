-- Tasks by SQL: what applications that share the database call, in their own transactions; see docs/sql.md.
--
-- Such a transaction may stay open for as long as it likes, or be forgotten, and must never keep Reeve waiting: it takes no
-- lock that anything of Reeve's waits for (but its key's: who submits the same key has to know what becomes of it). What
-- would need one, a new route or a count of a batch, is left to a manager: the task waits in `arrivals` until that has been
-- seen to, right after the commit.

-- The longest details that it takes: no task may be made that a manager could not take or hand out.
alter table managers add column max_details bigint not null default 1048576;

-- Tasks that were submitted by SQL and are to be admitted: made members of a batch, given a route (theirs is 0 if it was not
-- there yet). Until then their run_at is infinity, held_run_at when they are due, and batch_id null. What is ended or run
-- again meanwhile has no such row in tasks any more, and is left alone.
create table arrivals (
  task_id bigint primary key,
  batch_id bigint);                        -- which batch was asked for; null: its queue's implicit one, or none

-- The longest details that every manager takes. One that has been silent for a minute is not there any more.
create function details_most() returns bigint language sql stable as $$
  select coalesce(
    (select min(max_details) from managers where not stopped and hb_at > clock_timestamp() - interval '1 minute'),
    (select max_details from managers order by hb_at desc limit 1), 1048576)
$$;

-- Raises an error unless it is a name as Reeve takes them: 1 to 255 bytes without control characters.
create function check_name(parameter text, name text) returns void language plpgsql immutable as $$
begin
  if name is null then
    raise exception using errcode = '22004', message = parameter || ' is NULL';
  elsif name = '' then
    raise exception using errcode = '22023', message = parameter || ' is empty';
  elsif octet_length(name) > 255 then
    raise exception using errcode = '22001', message = format('%s has %s bytes; at most 255 are taken', parameter, octet_length(name));
  elsif name ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception using errcode = '22023', message = parameter || ' holds a control character';
  end if;
end $$;

-- An interval as ms. Raises an error if it is shorter or longer than what is said.
create function check_interval(parameter text, given interval, least_ms bigint, most_ms bigint) returns bigint
language plpgsql immutable as $$
declare
  ms numeric := trunc(extract(epoch from given) * 1000);
begin
  if not isfinite(given) or ms < least_ms or ms > most_ms or given < interval '0' then
    raise exception using errcode = '22023', message = format('%s is %s; it must be from %s to %s', parameter, given,
      justify_hours(interval '1ms' * least_ms), justify_hours(interval '1ms' * most_ms));
  end if;
  return ms;
end $$;

-- A duration as the commands take it, "250ms", "5s", "1m30s", in ms; null if it is none.
create function duration_ms(given text) returns bigint language sql immutable parallel safe as $$
  select case when given ~ '^[0-9]{1,9}([.][0-9]{1,9})?$' then trunc(given::numeric * 1000)
    when given ~ '^([0-9]{1,9}([.][0-9]{1,9})?(ms|s|m|h|d))+$' then (
      select trunc(sum(p[1]::numeric * case p[2] when 'ms' then 1 when 's' then 1000 when 'm' then 60000
        when 'h' then 3600000 else 86400000 end))
      from regexp_matches(given, '([0-9.]+)(ms|s|m|h|d)', 'g') p) end
$$;

-- A retry policy as the commands take it, "exp:1s:1h", as parts of a task's spec (see submit_task).
create function backoff_spec(given text) returns jsonb language plpgsql immutable as $$
declare
  parts text[] := string_to_array(given, ':');
  kind text := parts[1];
  longest constant bigint := 365 * 86400000::bigint;
  delays text[];
  first bigint;
  second bigint;
  bad text;
begin
  delays := case when kind = 'list' then string_to_array(parts[2], ',') else array[parts[2]] end;
  if kind is null or kind not in ('fixed', 'linear', 'exp', 'poly', 'list') or cardinality(parts) < 2
    or cardinality(parts) > (case when kind in ('fixed', 'list') then 2 else 3 end) then
    bad := 'it is none';
  elsif exists (select from unnest(delays) d where duration_ms(d) is null or duration_ms(d) > longest)
    or cardinality(parts) = 3 and kind <> 'poly' and (duration_ms(parts[3]) is null or duration_ms(parts[3]) > longest) then
    bad := 'a delay is no duration like 250ms, 5s, 1m30s or 2h, of at most 365 days';
  elsif cardinality(delays) > 100 or cardinality(delays) = 0 then
    bad := 'a list has from 1 to 100 delays';
  elsif kind = 'poly' and parts[3] is not null
    and not (case when parts[3] ~ '^[0-9]{1,3}([.][0-9]{1,9})?$' then parts[3]::numeric between 0.000000001 and 10 else false end) then
    bad := 'the exponent is no number above 0, at most 10';
  else
    first := case when kind <> 'list' then duration_ms(parts[2]) end;
    second := case when kind <> 'poly' then duration_ms(parts[3]) end;
    if kind in ('fixed', 'exp', 'poly') and first = 0 or kind = 'exp' and second = 0 then
      bad := 'it has a delay of 0; the shortest is 1ms';
    end if;
  end if;
  if bad is not null then
    raise exception using errcode = '22023', message = format('backoff is "%s": %s; it takes fixed:D, linear:STEP[:BASE], '
      'exp:BASE[:CAP], poly:BASE[:EXPONENT] or list:D,D,…', left(given, 64), bad);
  end if;
  return case kind
    when 'fixed' then jsonb_build_object('retry_base_ms', first, 'retry_max_ms', longest, 'retry_policy', jsonb_build_object('kind', 'fixed'))
    when 'linear' then jsonb_build_object('retry_base_ms', coalesce(second, 0), 'retry_max_ms', 3600000,
      'retry_policy', jsonb_build_object('kind', 'linear', 'step_ms', first))
    when 'exp' then jsonb_build_object('retry_base_ms', first, 'retry_max_ms', coalesce(second, 3600000), 'retry_policy', null)
    when 'poly' then jsonb_build_object('retry_base_ms', first, 'retry_max_ms', 3600000,
      'retry_policy', jsonb_build_object('kind', 'polynomial', 'exponent', coalesce(parts[3]::float8, 2)))
    else jsonb_build_object('retry_base_ms', 0, 'retry_max_ms', longest, 'retry_policy', jsonb_build_object('kind', 'list',
      'delays_ms', (select jsonb_agg(duration_ms(d) order by n) from unnest(delays) with ordinality u(d, n)))) end;
end $$;

-- Submits a task in the caller's transaction: it is there when that commits, or not at all. Answers its id, or that of the
-- task that has the key already. Call it with named arguments; docs/sql.md says what each is. It runs with its owner's rights,
-- so that applications need none on the tables.
create function submit(
  type text default null,
  details text default '',
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
  source text default null
) returns bigint language plpgsql security definer set search_path = reeve, pg_temp as $$
#variable_conflict use_column
declare
  q queues;
  b batches;
  spec jsonb := '{}';
  of_type text := submit.type;
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
begin
  if submit.pipeline is not null then
    if of_type is not null or submit.max_attempts is not null or submit.timeout is not null or submit.backoff is not null then
      raise exception using errcode = '22023', message = format('%s is given with a pipeline, whose stages say it',
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
  if submit.key is not null then
    perform check_name('key', submit.key);
  end if;
  if submit.details is null then
    raise exception using errcode = '22004', message = 'details is NULL; a task without any has an empty text';
  elsif octet_length(submit.details) > 0 then
    most := details_most();
    if octet_length(submit.details) > most then
      raise exception using errcode = '22001',
        message = format('details has %s bytes; at most %s are taken', octet_length(submit.details), most);
    end if;
  end if;
  if submit.priority is null then
    raise exception using errcode = '22004', message = 'priority is NULL';
  elsif submit.priority not between -1000000 and 1000000 then
    raise exception using errcode = '22023',
      message = format('priority is %s; it must be from -1000000 to 1000000', submit.priority);
  end if;
  if submit.max_attempts not between 1 and 10000 then
    raise exception using errcode = '22023', message = format('max_attempts is %s; it must be from 1 to 10000', submit.max_attempts);
  end if;
  if submit.delay is not null then
    perform check_interval('delay', submit.delay, 0, 36500 * 86400000::bigint);
    if submit.run_at is not null then
      raise exception using errcode = '22023', message = 'delay and run_at are given, which say the same';
    end if;
  end if;
  if not isfinite(submit.run_at) or submit.run_at not between '1970-01-01 00:00Z' and '9999-12-31 23:59:59Z' then
    raise exception using errcode = '22023',
      message = format('run_at is %s; it must be from 1970-01-01 to 9999-12-31', submit.run_at);
  end if;
  if submit.key_ttl is not null then
    if submit.key is null then
      raise exception using errcode = '22023', message = 'key_ttl is given without a key';
    end if;
    ttl_ms := check_interval('key_ttl', submit.key_ttl, 1, 36500 * 86400000::bigint);
  end if;
  timeout_ms := coalesce(check_interval('timeout', submit.timeout, 1, 30 * 86400000::bigint), (spec ->> 'timeout_ms')::bigint, 60000);
  if submit.jitter not between 0 and 100 then
    raise exception using errcode = '22023', message = format('jitter is %s; it must be from 0 to 100 (percent)', submit.jitter);
  elsif submit.jitter is not null and submit.backoff is null then
    raise exception using errcode = '22023', message = 'jitter is given without backoff';
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
  if spec ->> 'retry_base_ms' = '0' then -- a linear one: it begins with the resting period
    spec := spec || jsonb_build_object('retry_base_ms', coalesce(q.resting_ms, 0));
  end if;
  if spec ? 'retry_base_ms' then
    select (spec ->> 'retry_base_ms')::bigint as base_ms, coalesce((spec ->> 'retry_max_ms')::bigint, 3600000) as max_ms,
      nullif(spec -> 'retry_policy', 'null') as policy into rests;
  else
    select queue_retry_base_ms(q, 1000) as base_ms, coalesce(q.retry_max_ms, 3600000) as max_ms, q.retry_policy as policy
    into rests;
  end if;

  select id into way from routes where queue = in_queue and type = of_type and labels = '{}';
  -- All stages of a pipeline have routes from its beginning on.
  waits := way is null or submit.batch_id is not null or coalesce(q.batches, false) or submit.pipeline is not null and exists (
    select from pipelines p, jsonb_array_elements(p.stages) s
    where p.id = (spec ->> 'pipeline_id')::bigint
      and not exists (select from routes r where r.queue = in_queue and r.type = s ->> 'type' and r.labels = '{}'));
  made := nextval('tasks_id_seq');
  if submit.key is not null then
    loop
      delete from keys where queue = in_queue and key = submit.key and expires_at <= clock_timestamp();
      insert into keys (queue, key, task_id, keep_ms, expires_at)
      values (in_queue, submit.key, made, ttl_ms, clock_timestamp() + interval '1ms' * ttl_ms)
      on conflict do nothing;
      exit when found;
      select task_id into made from keys where queue = in_queue and key = submit.key;
      if found then
        return made;
      end if;
      made := nextval('tasks_id_seq'); -- it went between the two statements
    end loop;
  end if;
  moment := clock_timestamp();
  due := greatest(submit.run_at, moment) + coalesce(submit.delay, '0');
  insert into tasks (id, route_id, priority, queue, type, details, run_at, held_run_at, max_attempts, timeout_ms,
    retry_base_ms, retry_max_ms, retry_policy, key, source, pipeline_id, stage, step, created, last_updated)
  overriding system value
  values (made, coalesce(way, 0), coalesce((spec ->> 'priority')::int, submit.priority), in_queue, of_type, submit.details,
    case when waits then 'infinity' else due end, case when waits then due end,
    coalesce(submit.max_attempts, (spec ->> 'max_attempts')::int, q.max_attempts, 5), timeout_ms, rests.base_ms, rests.max_ms,
    rests.policy, submit.key, actor, (spec ->> 'pipeline_id')::bigint, spec ->> 'stage', (spec ->> 'step')::int, moment, moment);
  if waits then
    insert into arrivals (task_id, batch_id) values (made, submit.batch_id);
    perform pg_notify('reeve_wake', 'arrivals');
  else
    -- Tasks of one second are told of together: equal notifications of a transaction are sent once.
    second := floor(extract(epoch from due))::bigint;
    perform pg_notify('reeve_wake', format('0 %s %s %s %s', way, coalesce((spec ->> 'priority')::int, submit.priority),
      second * 1000000, (second + 1) * 1000000));
  end if;
  return made;
end $$;
revoke execute on function submit from public;

-- Waits until no open transaction has these keys, and keeps none: whoever is about to lock a queue or a batch, for which all wait
-- who end its tasks, must not begin to wait for an application's key then.
create function keys_await(in_queues text[], wanted text[]) returns void language plpgsql as $$
begin
  insert into keys (queue, key, task_id)
  select distinct u.queue, u.key, 0 from unnest(in_queues, wanted) u(queue, key) where u.key is not null order by 1, 2
  on conflict do nothing;
  raise exception using errcode = 'RV000'; -- given back with the block's savepoint
exception when sqlstate 'RV000' then
  null;
end $$;

-- Admits tasks of arrivals, the first beyond the id `beyond` and those that go with it (of the same queue, type and batch), at most
-- so many. Takes the locks that any submit takes; what another manager is just admitting is passed over. Answers up to where
-- it came (null: there are none), how many it admitted, and if their batch does not take them, which tasks are to be ended by
-- the caller, in the same transaction, with which code and why.
create function arrivals_admit(beyond bigint, most int, out walked bigint, out admitted int, out refused bigint[], out code text,
  out reason text)
language plpgsql as $$
#variable_conflict use_column
declare
  a record;
  q queues;
  b record;
  ids bigint[];
  late bigint[];
  way int;
begin
  admitted := 0;
  select x.task_id, x.batch_id, t.id, t.queue, t.type into a
  from arrivals x left join tasks t on t.id = x.task_id and t.held_run_at is not null and t.batch_id is null
  where x.task_id > beyond and not exists (select from queues s where s.name = t.queue and s.state = 'stopping')
  order by x.task_id limit 1 for update of x skip locked;
  walked := a.task_id;
  if a.id is null then
    delete from arrivals where task_id = a.task_id;
    return;
  end if;
  -- Looked for among the next `most` only: where each has a type, or a batch, of its own, the others are not all read for each.
  ids := array(
    select x.task_id from arrivals x join tasks t on t.id = x.task_id
    where x.task_id between a.task_id and (
        select max(task_id) from (select task_id from arrivals where task_id >= a.task_id order by task_id limit most) n)
      and t.queue = a.queue and t.type = a.type and x.batch_id is not distinct from a.batch_id
    order by x.task_id for update of x skip locked);
  ids := array(
    select id from tasks where id = any(ids) and status = 'queued' and held_run_at is not null and batch_id is null
    order by id for no key update);
  perform pipeline_routes(p, a.queue) from (
    select distinct pipeline_id as p from tasks where id = any(ids) and pipeline_id is not null order by 1) p;
  way := route_of(a.queue, a.type); -- after those, which are made in the order of their names
  select * into q from queues where name = a.queue for no key update;
  -- What was submitted before its queue was stopped ends as all that did: whoever sees to the stop finds it by its route.
  if q.state in ('stopping', 'stopped') and a.batch_id is null then
    late := array(select id from tasks where id = any(ids) and id <= q.stopped_id and last_updated <= q.stopped_at);
    update tasks set route_id = way, run_at = held_run_at, held_run_at = null where id = any(late);
    delete from arrivals where task_id = any(late);
    ids := array(select i from unnest(ids) i where i <> all(late));
  end if;
  if ids = '{}' then
    return;
  end if;
  begin
    select * into b from submit_batches(gen_random_uuid(), array[a.queue], array[a.batch_id], array[null::text]);
  exception
    when sqlstate 'RV503' then -- it is just being stopped: then
      return;
    when sqlstate 'RV400' or sqlstate 'RV404' or sqlstate 'RV409' then
      update tasks set route_id = way where id = any(ids);
      delete from arrivals where task_id = any(ids);
      refused := ids;
      code := case sqlstate when 'RV409' then 'batch_closed' when 'RV404' then 'batch_gone' else 'batch_wrong' end;
      reason := sqlerrm;
      return;
  end;
  update tasks set route_id = way, batch_id = b.batch_id,
    run_at = case when b.held then 'infinity' else greatest(held_run_at, clock_timestamp()) end,
    held_run_at = case when b.held then held_run_at end,
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = any(ids);
  admitted := cardinality(ids);
  delete from arrivals where task_id = any(ids);
  if b.batch_id is not null then
    update batches x set submitted = x.submitted + admitted, pending = x.pending + admitted where x.id = b.batch_id;
    if b.begins then
      perform batches_begin(array[b.batch_id]);
    end if;
  end if;
  if not b.held then
    perform pg_notify('reeve_wake', format('0 %s %s %s', way, priority, (extract(epoch from min(run_at)) * 1000000)::bigint))
    from tasks where id = any(ids) group by priority;
  end if;
end $$;
