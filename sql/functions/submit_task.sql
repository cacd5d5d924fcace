-- Submits one task in the caller's transaction; its commit notifies the managers. `spec` is checked already. It has any
-- of "queue", "type", "details", "priority", "run_at" (a time), "delay_ms", "key", "key_ttl_ms", "version",
-- "max_attempts", "timeout_ms", "retry_base_ms", "retry_max_ms", "retry_policy", "batch_id", "pipeline" (a name; then
-- the options that stages set are absent), "stage" (with a pipeline: where it begins) and "source"; the rest is as its queue
-- sets it. Takes locks as any submit does: of its queue, if that has settings, its key, and its batch. For short transactions
-- only.
create or replace function submit_task(spec jsonb, out id bigint, out existing boolean, out restarted boolean) language plpgsql as $$
#variable_conflict use_column
declare
  q queues;
  b record;
  way int;
  moment timestamptz;
  due timestamptz;
  newer record;
  t tasks;
begin
  spec := jsonb_strip_nulls(spec);
  if spec ? 'pipeline' then
    spec := spec - 'pipeline' || pipeline_start(spec ->> 'pipeline', spec ->> 'stage');
    perform pipeline_routes((spec ->> 'pipeline_id')::bigint, coalesce(spec ->> 'queue', 'default'));
  end if;
  spec := jsonb_build_object('queue', 'default', 'details', '', 'delay_ms', 0, 'source', '') || spec;
  if spec ? 'key' then
    perform keys_await(array[spec ->> 'queue'], array[spec ->> 'key']);
  end if;
  select * into b from submit_batches(gen_random_uuid(), array[spec ->> 'queue'], array[(spec ->> 'batch_id')::bigint],
    array[case when spec ? 'version' then spec ->> 'key' end]);
  select * into q from queues where name = spec ->> 'queue';
  if not spec ? 'retry_base_ms' then
    spec := spec || jsonb_build_object('retry_base_ms', queue_retry_base_ms(q, DEFAULT_RETRY_BASE_MS), 'retry_max_ms',
      coalesce(q.retry_max_ms, DEFAULT_RETRY_MAX_MS), 'retry_policy', q.retry_policy);
  elsif (spec ->> 'retry_base_ms')::bigint = 0 and not spec ? 'pipeline_id' then -- linear: it begins with the resting period
    spec := spec || jsonb_build_object('retry_base_ms', coalesce(q.resting_ms, 0));
  end if;
  spec := jsonb_strip_nulls(jsonb_build_object('max_attempts', coalesce(q.max_attempts, DEFAULT_ATTEMPTS), 'key_ttl_ms',
    nullif(q.key_ttl_ms, 0), 'priority', coalesce(q.priority, 0), 'timeout_ms', coalesce(q.timeout_ms, DEFAULT_TIMEOUT_MS))) || spec;
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
        raise exception using errcode = '40001', message = 'a key has expired';
      end if;
    end if;
  else
    due := greatest((spec ->> 'run_at')::timestamptz, moment) + interval '1ms' * (spec ->> 'delay_ms')::bigint;
    t := task_of_spec(spec);
    t.id := id;
    t.route_id := way;
    t.run_at := case when b.blocked then 'infinity' else due end;
    t.blocked_run_at := case when b.blocked then due end;
    t.batch_id := b.batch_id;
    t.created := moment;
    perform task_insert(t);
    if b.batch_id is not null then
      update batches x set submitted = x.submitted + 1, pending = x.pending + 1 where x.id = b.batch_id;
      if b.begins then
        perform batches_begin(array[b.batch_id]);
      end if;
    end if;
  end if;
  -- Equal notifications of a transaction are sent once.
  perform pg_notify('reeve_notify', format('0 %s %s %s', way, spec ->> 'priority', (extract(epoch from now()) * 1000000)::bigint));
end $$;
