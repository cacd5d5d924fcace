-- Adds a schedule in the caller's transaction, as the command does, and returns its id. docs/sql.md describes the parameters. It
-- runs with its owner's rights, so that applications need none on the tables; details as for submit.
create or replace function schedule(
  name text,
  type text default null,
  details anycompatible default ''::text,
  cron text default null,
  zone text default null,
  every interval default null,
  start timestamptz default null,
  manual boolean default false,
  catch_up text default null,
  concurrency_policy text default null,
  queue text default null,
  priority int default null,
  delay interval default null,
  key text default null,
  key_ttl interval default null,
  max_attempts int default null,
  timeout interval default null,
  backoff text default null,
  jitter int default null,
  pipeline text default null,
  source text default null,
  traceparent text default null
) returns bigint language plpgsql security definer set search_path = reeve, pg_temp as $$
#variable_conflict use_variable
declare
  input constant text := format('%s', details);
  of_source constant text := coalesce(application_role() || '/' || nullif(source, ''), source);
  actor constant text := coalesce(of_source, session_user::text);
  every_ms constant bigint := check_interval('every', every, LIMIT_EVERY_MIN_MS, LIMIT_EVERY_DAYS * 86400000::bigint);
  missed constant text[] := regexp_match(coalesce(catch_up, 'one'), '^(skip|one|all)(?::([0-9]{1,9}))?$');
  checked record;
  change jsonb;
  s schedules;
begin
  perform check_name('name', name);
  select * into checked from task_check(type, input, coalesce(queue, 'default'), priority, delay, key, key_ttl, max_attempts, timeout,
    jitter, backoff, pipeline, actor, traceparent);
  if num_nonnulls(cron, every, nullif(manual, false)) <> 1 then
    raise exception using errcode = '22023', message = 'one of cron, every and manual must be given';
  elsif octet_length(cron) > LIMIT_CRON_BYTES then
    raise exception using errcode = '22001', message = format('cron has %s bytes; at most LIMIT_CRON_BYTES are allowed', octet_length(cron));
  elsif not isfinite(start) or start not between '1970-01-01 00:00:00.000001Z' and '9999-12-31 23:59:59Z' then
    raise exception using errcode = '22023', message = format('start is %s; it must be from 1970-01-01 to 9999-12-31', start);
  elsif missed is null or (missed[1] = 'all') <> (missed[2] is not null) or missed[2]::int not between 1 and LIMIT_CATCH_UP then
    raise exception using errcode = '22023',
      message = format('catch_up is "%s"; it must be skip, one or all:N, with N from 1 to LIMIT_CATCH_UP', catch_up);
  elsif concurrency_policy not in ('allow', 'forbid', 'queue') then
    raise exception using errcode = '22023',
      message = format('concurrency_policy is "%s"; it must be allow, forbid or queue', concurrency_policy);
  end if;
  change := jsonb_strip_nulls(jsonb_build_object('cron', cron, 'every_ms', every_ms, 'manual', nullif(manual, false), 'zone', zone,
    'start_us', time_us(start), 'catch_up', case when catch_up is not null then missed[1] end, 'max_catch_up', missed[2]::int,
    'concurrency_policy', concurrency_policy, 'task', jsonb_build_object('type', type, 'pipeline', pipeline, 'queue', queue,
      'details', nullif(input, ''), 'priority', priority, 'delay_ms', nullif(checked.delay_ms, 0), 'key', key,
      'key_ttl_ms', checked.key_ttl_ms, 'max_attempts', max_attempts, 'timeout_ms', checked.timeout_ms, 'source', of_source,
      'traceparent', traceparent) || case when backoff is not null then backoff_spec(backoff, jitter) else '{}' end));
  begin
    s := schedule_add(null, name, change, actor);
  exception
    when sqlstate 'RV440' then
      raise exception using errcode = '42710', message = sqlerrm;
    when sqlstate 'RV400' or sqlstate 'RV404' or sqlstate 'RV409' then
      raise exception using errcode = '22023',
        message = regexp_replace(regexp_replace(sqlerrm, 'schedule[.](task[.])?', '', 'g'), '(every|start)_(ms|us)', '\1', 'g');
  end;
  return s.id;
end $$;

revoke execute on function schedule from public;
