-- What nothing uses any more goes: routes, and definitions of pipelines that were replaced.

-- A route is used while it has tasks, waiting, executing or in the history. One that has had none for a day is unused: managers
-- forget it. A day later it is deleted. Nobody asks for a lock on a route to use it, so a task may come to one that is unused, or
-- deleted, just then. Its count tells (see tasks_counted): whoever adds it up brings the route back (routes_return).
alter table routes
  add column unused_since timestamptz,     -- null: it is used, or was lately
  add column used timestamptz not null default clock_timestamp(); -- when it was made, or brought back
create index routes_used on routes (id) where unused_since is null and labels = '{}';

-- A route's number; it is made or brought back if need be.
create or replace function route_of(wanted_queue text, wanted_type text) returns int language plpgsql as $$
declare
  r routes;
begin
  loop
    select * into r from routes where queue = wanted_queue and type = wanted_type and labels = '{}';
    if not found then
      insert into routes (queue, type) values (wanted_queue, wanted_type) on conflict do nothing returning * into r;
    elsif r.unused_since is not null then
      update routes set unused_since = null, used = clock_timestamp() where id = r.id returning * into r;
    end if;
    if found then
      return r.id;
    end if;
  end loop; -- it was made, or deleted, just then
end $$;

-- Brings back routes that have tasks. One that is deleted gets its number again; if its names have another by now, its tasks
-- that wait get that one. (Those that execute, and those that somebody has locked, when they come up next.)
create function routes_return(ids int[]) returns void language plpgsql as $$
declare
  stray int;
  way int;
  task record;
  moved bigint[];
begin
  update routes set unused_since = null, used = clock_timestamp()
  where id = any(array(select id from routes where id = any(ids) and unused_since is not null for no key update skip locked));
  for stray in select i from unnest(ids) i where not exists (select from routes r where r.id = i) order by i loop
    select t.queue, t.type into task from tasks t where t.route_id = stray and t.lane is null limit 1;
    continue when not found;
    insert into routes (id, queue, type) overriding system value values (stray, task.queue, task.type) on conflict do nothing;
    continue when found;
    way := route_of(task.queue, task.type);
    moved := array(select t.id from tasks t
      where t.route_id = stray and t.lane is null and t.status <> 'executing' order by t.id limit 5000 for no key update skip locked);
    perform tasks_counted(moved, -1);
    update tasks set route_id = way where id = any(moved);
    perform tasks_counted(moved, 1);
    perform pg_notify('reeve_wake', format('0 %s %s %s', way, priority, time_us(min(run_at))))
    from tasks where id = any(moved) and isfinite(run_at) group by priority;
  end loop;
end $$;

-- Goes over a page of routes, from a number on: says that those are unused that have had no task for a day, and deletes those that
-- have been for another. Returns how many, and the page's end, null at the last one. First brings back what has tasks after all.
-- Nobody adds counts up meanwhile: of any task that this does not see the count is added up later.
create function routes_purge(after bigint, out gone bigint, out last bigint) language plpgsql as $$
declare
  most constant int := 1000;
  page int[];
  free int[];
  deleted int[];
begin
  perform from locks where name = 'counts' for no key update;
  perform routes_return(array(select c.route_id from live_counts c
    where c.live <> 0 and c.route_id <> 0 and not exists (select from routes r where r.id = c.route_id and r.unused_since is null)));
  page := array(select id from routes where id > after order by id limit most);
  free := array(select id from unnest(page) id
    where not exists (select from live_counts c where c.route_id = id and (c.live <> 0 or c.retrying <> 0 or c.delayed <> 0))
      and not exists (select from history_counts h where h.route_id = id and h.count <> 0));
  with old as materialized (
    select id from routes
    where id = any(free) and unused_since is null and used < clock_timestamp() - interval '1 day' for no key update skip locked)
  update routes r set unused_since = clock_timestamp() from old where r.id = old.id;
  get diagnostics gone = row_count;
  with old as materialized (
    select id from routes where id = any(free) and unused_since < clock_timestamp() - interval '1 day' for update skip locked),
   dropped as (delete from routes r using old where r.id = old.id returning r.id)
  select array_agg(id) into deleted from dropped;
  delete from live_counts where route_id = any(deleted);
  delete from history_counts where route_id = any(deleted);
  gone := gone + coalesce(cardinality(deleted), 0);
  last := case when cardinality(page) = most then page[most] end;
end $$;

-- As before, and brings back the routes of tasks that came to one that is unused.
create or replace function counts_fold() returns bigint language plpgsql as $$
declare
  now_at constant timestamptz := clock_timestamp();
  most constant int := 5000;
  changes bigint;
  passed bigint;
  dues timestamptz[];
  routes int[];
  used int[];
begin
  perform from locks where name = 'counts' for no key update skip locked;
  if not found then
    return 0;
  end if;
  with taken as (
    delete from count_changes where ctid = any(array(select ctid from count_changes limit most)) returning *),
   days as (
    insert into history_day_counts as c (keep_until, route_id, status, count)
    select keep_until, route_id, status, sum(count) from taken where keep_until is not null group by 1, 2, 3
    on conflict (keep_until, route_id, status) do update set count = c.count + excluded.count),
   totals as (
    insert into history_counts as c (route_id, status, count)
    select route_id, status, sum(count) from taken where keep_until is not null group by 1, 2
    on conflict (route_id, status) do update set count = c.count + excluded.count),
   later as (
    insert into live_due as d (due, route_id, count)
    select due, route_id, sum(live) from taken where due > now_at group by 1, 2 having sum(live) <> 0
    on conflict (due, route_id) do update set count = d.count + excluded.count
    returning *),
   live as (
    insert into live_counts as c (route_id, live, retrying, delayed)
    select route_id, sum(live), sum(retrying), coalesce(sum(live) filter (where due > now_at), 0)
    from taken where live <> 0 or retrying <> 0 group by 1
    on conflict (route_id) do update set live = c.live + excluded.live, retrying = c.retrying + excluded.retrying,
      delayed = c.delayed + excluded.delayed)
  select (select count(*) from taken), array_agg(due), array_agg(route_id),
    (select array_agg(distinct route_id) from taken where route_id <> 0 and (live > 0 or count > 0))
  into changes, dues, routes, used from later where count = 0;
  delete from live_due where (due, route_id) in (select * from unnest(dues, routes));
  used := array(select u from unnest(used) u where not exists (select from reeve.routes r where r.id = u and r.unused_since is null offset 0));
  if used <> '{}' then
    perform routes_return(used);
  end if;
  with gone as (
    delete from live_due where (due, route_id) in (select due, route_id from live_due where due <= now_at order by due limit most)
    returning route_id, count),
   less as (
    update live_counts c set delayed = c.delayed - g.count
    from (select route_id, sum(count) as count from gone group by 1) g where c.route_id = g.route_id)
  select count(*) into passed from gone;
  return greatest(changes, passed);
end $$;

-- Definitions of pipelines. unused_since: since when no live task has a definition that was replaced; unused_xid: whatever was
-- written before has a smaller number.
alter table pipelines
  add column unused_since timestamptz,
  add column unused_xid xid8;
create index pipelines_replaced on pipelines (id) where replaced_at is not null;
create index tasks_pipeline on tasks (pipeline_id) where pipeline_id is not null;

-- How long a manager keeps what is not a queue's to say.
alter table managers add column history_days int;


-- The longest that any manager keeps anything, in days. One that has been silent for a day is not there any more.
create function history_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, (select max(history_days) from managers where not stopped and hb_at > statement_timestamp() - interval '1 day'))
$$;

-- As before, and that any manager does.
create or replace function longest_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, history_keep(otherwise),
    (select max(greatest(keep_completed_days, keep_dead_days, keep_cancelled_days)) from queues))
$$;

-- Callbacks: a try counts when it is known what came of it. takes: how often a manager has taken it for a try.
alter table callbacks add column takes int not null default 0;
update callbacks set takes = attempts where state = 'waiting';
