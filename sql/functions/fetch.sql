-- Claims due tasks for a program that has only SQL, in the caller's transaction, as a manager does for a pull client. Nobody
-- else gets them until complete or fail ends the attempt, or it expires. It waits for no lock. docs/sql.md describes the
-- parameters. It runs with its owner's rights, so that applications need none on the tables.
create or replace function reeve.fetch(
  types text[] default '{}',
  exclude bigint[] default '{}',
  max_tasks int default 1,
  ref_now timestamptz default null,
  queues text[] default '{}',
  client text default null
) returns table (id bigint, token bigint, queue text, type text, details text, attempt int, max_attempts int, key text,
  batch_id bigint, stage text, traceparent text, expires timestamptz)
language plpgsql security definer set search_path = reeve, pg_temp as $$
#variable_conflict use_column
declare
  of_types constant text[] := coalesce(types, '{}');
  of_queues constant text[] := coalesce(queues, '{}');
  client_name constant text := coalesce(client, session_user::text);
  due_by constant timestamptz := least(ref_now, statement_timestamp());
  tried bigint[] := coalesce(exclude, '{}'); -- they are not tried again
  won bigint[] := '{}';
  ways int[];
  found_ids bigint[];
  ids bigint[];
  versions timestamptz[];
  mine bigint;
begin
  perform check_name('client', client_name);
  perform check_name('types', name) from unnest(of_types) name;
  perform check_name('queues', name) from unnest(of_queues) name;
  if cardinality(of_types) > LIMIT_ACCEPTED or cardinality(of_queues) > LIMIT_ACCEPTED or cardinality(tried) > LIMIT_EXCLUDED then
    raise exception using errcode = '22023', message = 'at most LIMIT_ACCEPTED types and queues and LIMIT_EXCLUDED tasks to exclude are taken';
  elsif max_tasks is null or max_tasks not between 1 and LIMIT_CALL_TASKS then
    raise exception using errcode = '22023', message = format('max_tasks is %s; it must be from 1 to LIMIT_CALL_TASKS', coalesce(max_tasks::text, 'NULL'));
  end if;
  ways := array(
    select r.id from routes r
    where (of_queues = '{}' or r.queue = any(of_queues)) and (of_types = '{}' or r.type = any(of_types))
      and not exists (select from reeve.queues q where q.name = r.queue and q.state <> 'running'));
  loop
    found_ids := array(
      with streams as (
        select array_agg(route_id) as routes, array_agg(priority) as priorities, array_agg(max_tasks + cardinality(tried)) as most,
          array_agg(1) as ones, array_agg(0) as zeros, array_agg(0::bigint) as nones, array_agg('-infinity'::timestamptz) as top
        from ready_streams(ways, array(select 2147483647 from unnest(ways)), 10000) where run_at <= due_by)
      select p.id from streams s
      cross join lateral ready_pages(s.routes, s.priorities, s.top, s.nones, s.top, s.most, s.ones, s.zeros, s.nones) p
      where p.id > 0 and p.run_at <= due_by and p.id <> all(tried)
      order by s.priorities[p.slot] desc, p.run_at, p.id limit max_tasks - cardinality(won));
    exit when found_ids = '{}';
    tried := tried || found_ids;
    select array_agg(t.id), array_agg(t.last_updated) into ids, versions from (
      select id, last_updated from tasks
      where id = any(found_ids) and status in ('queued', 'failed') and cancel_requested_at is null
      order by id for no key update skip locked) t;
    continue when ids is null;
    mine := coalesce(mine, sql_client(client_name));
    won := won || array(
      select tasks_claim(ids, versions, array(select 1 from unnest(ids)), array[mine], array[0::bigint], 30000, true));
    exit when cardinality(won) = max_tasks;
  end loop;
  return query
    select id, time_us(last_updated), queue, type, details, attempt::int, max_attempts::int, key, batch_id, stage, traceparent, expiry
    from tasks where id = any(won) order by priority desc, run_at, id;
end $$;

revoke execute on function reeve.fetch from public;
