-- Claims due tasks for a program that has only SQL, in the caller's transaction, as a manager does for a pull client. Nobody
-- else gets them until complete or fail ends the attempt, or it expires. It waits for no lock. docs/sql.md describes the
-- parameters. It runs with its owner's rights, so that applications need none on the tables.
--
-- It goes through the priorities from the highest, and in each through pages of its due tasks. It locks no more of them than it
-- claims, except in a queue of which a claim then gets fewer: that gives nothing more (its limit is reached, or it was halted).
-- What is due when the clock was set back: see ready_page.
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
  ahead constant timestamptz := (select estimate from clock_ahead());
  -- Tasks may have been submitted between the last heartbeat that saw the clock ahead and its setting back.
  due_by constant timestamptz := least(ref_now, greatest(statement_timestamp(), ahead + interval '1 minute'));
  excluded constant bigint[] := array_remove(exclude, null);
  most_rows constant int := LIMIT_CALL_TASKS;
  won bigint[] := '{}';
  got bigint[];
  ways int[];
  level record;
  way int[];
  wanted int;                              -- how many more tasks
  page_rows int;                                -- of a page
  after_run_at timestamptz;                -- the place of a page in its priority
  after_id bigint;
  page_ids bigint[];
  page_times timestamptz[];
  upto int;                                -- how far the page has been tried
  ids bigint[];
  versions timestamptz[];
  mine bigint;
begin
  perform check_name('client', client_name);
  perform check_name('types', name) from unnest(of_types) name;
  perform check_name('queues', name) from unnest(of_queues) name;
  if cardinality(of_types) > LIMIT_ACCEPTED or cardinality(of_queues) > LIMIT_ACCEPTED or cardinality(exclude) > LIMIT_EXCLUDED then
    raise exception using errcode = '22023', message = 'at most LIMIT_ACCEPTED types and queues and LIMIT_EXCLUDED tasks to exclude are allowed';
  elsif max_tasks is null or max_tasks not between 1 and LIMIT_CALL_TASKS then
    raise exception using errcode = '22023', message = format('max_tasks is %s; it must be from 1 to LIMIT_CALL_TASKS', coalesce(max_tasks::text, 'NULL'));
  elsif current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception using errcode = '0A000', message = format('a transaction of %s does not see the limits of queues that were set since it began; '
      'fetch in one of read committed', current_setting('transaction_isolation'));
  end if;
  ways := array(
    select r.id from routes r
    where (of_queues = '{}' or r.queue = any(of_queues)) and (of_types = '{}' or r.type = any(of_types))
      and not exists (select from reeve.queues q where q.name = r.queue and (q.state <> 'running' or q.waiting_until > statement_timestamp()))
      and not exists (select from limits l where l.queue = r.queue and l.taken >= l.maximum));
  for level in
    select priority, array_agg(route_id) as ways
    from ready_streams(ways, array(select 2147483647 from unnest(ways)), 10000)
    where run_at <= due_by group by priority order by priority desc
  loop
    page_rows := 0;
    after_run_at := '-infinity';
    after_id := 0;
    loop
      wanted := max_tasks - cardinality(won);
      page_rows := least(greatest(wanted, 2 * page_rows), most_rows);
      way := array(select r from unnest(level.ways) r where r = any(ways));
      exit when way = '{}';
      select array_agg(id order by run_at, id), array_agg(run_at order by run_at, id) into page_ids, page_times from (
        select p.id, p.run_at
        from (
          select array_agg(r) as routes, array_agg(level.priority) as priorities, array_agg(after_run_at) as times, array_agg(after_id) as ids,
            array_agg(due_by) as estimates, array_agg(page_rows) as most, array_agg(1) as ones, array_agg(0) as zeros,
            array_agg(0::bigint) as nones
          from unnest(way) r) s
        cross join lateral ready_pages(s.routes, s.priorities, s.times, s.ids, s.estimates, s.most, s.ones, s.zeros, s.nones) p
        where p.id > 0 and p.run_at <= due_by order by p.run_at, p.id limit page_rows) p;
      exit when page_ids is null;
      select array_agg(id order by id), array_agg(last_updated order by id), max(n) into ids, versions, upto from (
        select t.id, t.last_updated, u.n
        from unnest(page_ids) with ordinality u(id, n)
        cross join lateral (
          select id, last_updated from tasks t
          where t.id = u.id and t.status in ('queued', 'failed') and t.cancel_requested_at is null and t.run_at <= due_by
            and (t.run_at <= statement_timestamp() or t.run_at <= t.last_updated
              or t.run_at <= ahead and t.last_updated > statement_timestamp())
          offset 0 for no key update skip locked) t
        where excluded is null or u.id <> all(excluded)
        limit wanted) l;
      if ids is not null then
        mine := coalesce(mine, sql_client(client_name));
        got := array(
          select tasks_claim(ids, versions, array(select 1 from unnest(ids)), array[mine], array[0::bigint], LIMIT_SQL_GRACE_MS, true));
        won := won || got;
        if cardinality(won) = max_tasks then
          exit;
        elsif cardinality(got) < cardinality(ids) then
          ways := array(
            select id from routes where id = any(ways) and queue <> all(array(select queue from tasks where id = any(ids) and id <> all(got))));
        end if;
      end if;
      if ids is null or cardinality(ids) < wanted then
        upto := cardinality(page_ids);
        exit when upto < page_rows;
      end if;
      after_run_at := page_times[upto];
      after_id := page_ids[upto];
    end loop;
    exit when cardinality(won) = max_tasks;
  end loop;
  return query
    select id, time_us(last_updated), queue, type, details, attempt::int, max_attempts::int, key, batch_id, stage, traceparent, expiry
    from tasks where id = any(won) order by priority desc, run_at, id;
end $$;

revoke execute on function reeve.fetch from public;
