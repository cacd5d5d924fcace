-- Keeps live tasks counted, too, so that nobody has to walk all that wait to tell how many there are.
--
-- Whoever makes or ends a task, or changes its route, when it is due or whether it has failed, adds a row to count_changes in the
-- same transaction, one for each group of a statement; counts_fold adds these up. A claim writes nothing but in the journal,
-- which tells what executes. So a task counts by what it was when it was written last by anything but a claim:
--   live      its route has it
--   retrying  it failed then (tasks.retrying, which claims leave as it is): it waits as `failed`, or executes after that
--   due       it was queued to a time that had not come yet: it is delayed until then

alter table tasks add column retrying boolean; -- true, or null: no

-- The route of all its tasks, of which none was `retrying`: `open` of that route execute by it. Null: its tasks tell.
alter table assignments add column plain_route int;

alter table history_changes rename to count_changes;
alter table count_changes
  alter column keep_until drop not null,   -- null: nothing came to the history or left it
  alter column route_id set not null,
  alter column status drop not null,
  alter column count set default 0,
  add column due timestamptz,              -- of those in `live`; null: they are due, or have failed
  add column live bigint not null default 0,
  add column retrying bigint not null default 0;

create table live_counts (
  route_id int primary key,                -- 0: submitted by SQL and not admitted yet
  live bigint not null,
  retrying bigint not null,
  delayed bigint not null                  -- the sum of its rows in live_due
) with (fillfactor = 50);

-- Delayed tasks by the second that they are due in. Rows whose time has come are taken off live_counts.delayed as they go.
create table live_due (
  due timestamptz not null,
  route_id int not null,
  count bigint not null,
  primary key (due, route_id));

-- Whoever adds changes up, or takes a part of the history away, has this row first: one at a time.
insert into locks (name) values ('counts');

-- When a queued task that was last written at `written` is due, to the second that it is due in, and so never later than it may
-- be claimed; null: it was due when it was written.
create function delayed_to(run_at timestamptz, written timestamptz) returns timestamptz language sql immutable parallel safe as $$
  select case when run_at > written then date_bin('1 second', run_at, '2000-01-01 00:00:00+00') end
$$;

-- The same of any task that waits or executes.
create function delayed_to(status text, run_at timestamptz, written timestamptz) returns timestamptz
language sql immutable parallel safe as $$
  select case when status = 'queued' then delayed_to(run_at, written) end
$$;

-- Notes that these tasks, whose rows are locked, are there as they are now (1), or no longer are (-1).
create function tasks_counted(ids bigint[], sign int) returns void language sql as $$
  insert into count_changes (route_id, due, live, retrying)
  select route_id, delayed_to(status, run_at, last_updated), sign * count(*), sign * count(retrying)
  from tasks where id = any(ids) group by 1, 2
$$;

create or replace view history_totals as
  select route_id, status, sum(count)::bigint as count
  from (select route_id, status, count from history_counts
    union all
    select route_id, status, count from count_changes where keep_until is not null) c
  group by route_id, status;

-- Live tasks by route, of one queue or (null) all of them. `queued` are due; the three others as `reeve queues` has them. Exact in
-- every snapshot, the border between queued and delayed to the second. Whoever claims goes by his own reckoning of the time: what
-- is not there any more, by that, is not delayed either.
create function live_totals(of_queue text)
returns table (route_id int, queued bigint, delayed bigint, executing bigint, failed bigint) language sql stable
set search_path = reeve, pg_temp as $$
  with running as (
    select a.plain_route as route_id, sum(a.open) as executing, 0 as retrying
    from assignments a where a.closed_at is null and a.plain_route is not null group by 1
    union all
    select t.route_id, count(*), count(t.retrying)
    from (select a.id, a.task_ids from assignments a where a.closed_at is null and a.plain_route is null offset 0) a
    cross join lateral unnest(a.task_ids) x(id)
    cross join lateral (
      select t.route_id, t.retrying from tasks t where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' offset 0) t
    group by 1),
   parts as (
    select c.route_id, c.live, c.delayed, 0 as executing, c.retrying as failed from live_counts c
    union all
    select c.route_id, c.live, case when c.due > statement_timestamp() then c.live else 0 end, 0, c.retrying
    from count_changes c where c.live <> 0 or c.retrying <> 0
    union all
    select d.route_id, 0, -d.count, 0, 0 from live_due d where d.due <= statement_timestamp()
    union all
    select r.route_id, 0, 0, r.executing, -r.retrying from running r),
   sums as (
    select p.route_id, sum(p.live) - sum(p.executing) - sum(p.failed) as waiting, sum(p.delayed) as delayed,
      sum(p.executing) as executing, sum(p.failed) as failed
    from parts p
    where of_queue is null and p.route_id <> 0 or p.route_id = any(array(select r.id from routes r where r.queue = of_queue))
    group by 1)
  select s.route_id, (s.waiting - d.delayed)::bigint, d.delayed::bigint, s.executing::bigint, s.failed::bigint
  from sums s cross join lateral (select greatest(0, least(s.delayed, s.waiting)) as delayed) d
$$;

-- As before, under the name that the table has now.
create or replace function history_left() returns trigger language plpgsql as $$
begin
  insert into count_changes (keep_until, route_id, status, count)
  select keep_until, route_id, status, -count(*) from gone group by 1, 2, 3;
  return null;
end $$;

-- Adds changes up, many at a time; where somebody else does it, it does nothing. Returns how many it took, at the least.
drop function history_fold();
create function counts_fold() returns bigint language plpgsql as $$
declare
  now_at constant timestamptz := clock_timestamp();
  most constant int := 5000;
  changes bigint;
  passed bigint;
  dues timestamptz[];
  routes int[];
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
  select (select count(*) from taken), array_agg(due), array_agg(route_id) into changes, dues, routes from later where count = 0;
  delete from live_due where (due, route_id) in (select * from unnest(dues, routes));
  with gone as (
    delete from live_due where (due, route_id) in (select due, route_id from live_due where due <= now_at order by due limit most)
    returning route_id, count),
   less as (
    update live_counts c set delayed = c.delayed - g.count
    from (select route_id, sum(count) as count from gone group by 1) g where c.route_id = g.route_id)
  select count(*) into passed from gone;
  return greatest(changes, passed);
end $$;

-- Counts live tasks anew, while nobody makes or ends any.
create function live_recount() returns void language plpgsql set search_path = reeve, pg_temp as $$
begin
  perform from locks where name = 'counts' for no key update;
  lock table tasks in share row exclusive mode;
  update tasks set retrying = true where status = 'failed' and retrying is distinct from true;
  update tasks set retrying = null where status = 'queued' and retrying;
  update assignments a set plain_route = null
  from (select id from assignments where closed_at is null and plain_route is not null for no key update skip locked) x
  where a.id = x.id;
  update count_changes set due = null, live = 0, retrying = 0 where keep_until is not null and (live <> 0 or retrying <> 0);
  delete from count_changes where keep_until is null;
  delete from live_counts;
  delete from live_due;
  with live as (
    select route_id, delayed_to(status, run_at, last_updated) as due, count(*) as n, count(retrying) as retrying
    from tasks group by 1, 2),
   later as (
    insert into live_due select due, route_id, n from live where due > clock_timestamp() returning route_id, count)
  insert into live_counts
  select l.route_id, sum(l.n), sum(l.retrying), coalesce((select sum(d.count) from later d where d.route_id = l.route_id), 0)
  from live l group by 1;
end $$;

-- Counts everything anew, while nobody makes or ends tasks: after rows of the tables were changed by hand, for example.
drop function history_recount();
create function counts_recount() returns void language plpgsql set search_path = reeve, pg_temp as $$
begin
  perform from locks where name = 'counts' for no key update;
  lock table tasks, task_history in share row exclusive mode;
  delete from count_changes where keep_until is not null;
  delete from history_counts;
  delete from history_day_counts;
  insert into history_day_counts select keep_until, route_id, status, count(*) from task_history group by 1, 2, 3;
  insert into history_counts select route_id, status, sum(count) from history_day_counts group by 1, 2;
  perform live_recount();
end $$;

-- As before, but nobody else adds up meanwhile: what he had taken and not committed would be counted after it has gone. While the
-- table is being dropped nobody adds to the history.
create or replace function drop_history_partition(partition text) returns void language plpgsql as $$
declare
  day date := to_date(substring(partition from '[0-9]{8}$'), 'YYYYMMDD');
begin
  perform from locks where name = 'counts' for no key update;
  execute format('drop table if exists reeve.%I', partition);
  update archives a set dropped = clock_timestamp() where a.partition = $1 and a.dropped is null;
  update count_changes set keep_until = null, count = 0 where keep_until = day;
  with gone as (delete from history_day_counts where keep_until = day returning route_id, status, count)
  update history_counts c set count = c.count - g.count
  from (select route_id, status, sum(count) as count from gone group by 1, 2) g
  where c.route_id = g.route_id and c.status = g.status;
  delete from history_counts where count = 0;
end $$;

-- How many live tasks each queue and type has, and since when the first that is due is. The numbers of up to 10,000 routes come at
-- once, so that few pages add the counts up, and with them what oldest_due is found within 50 ms. What is found later comes on
-- further pages, in rows that have nothing else. The last row has no queue, but tells where the next page begins, if there is one.
--   page: the route whose first due task is looked for next, the priority in it from which on (empty: the highest), and the route up
--   to which (exclusive) the numbers have come
drop function live_counts(text, text, int);
create function queue_counts(of_queue text, page text)
returns table (queue text, type text, queued bigint, delayed bigint, executing bigint, failed bigint, oldest_due timestamptz,
  next_page text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  over_at timestamptz;      -- begins with the first row, for which the counts of all are added up
  place constant text[] := string_to_array(page, '|');
  next_route int := coalesce(place[1], '0')::int;
  level int := nullif(place[2], '')::int;
  counted constant int := coalesce(place[3], '0')::int;
  counts constant boolean := next_route >= counted;
  most constant int := 10000;
  no_more constant int := 2147483647;
  looks boolean := true;
  n int := 0;
  last_id int;
  upto int;
  way record;
begin
  if cardinality(place) <> 3 then
    raise exception using errcode = 'RV400', message = format('page "%s" is none that was given', left(page, 100));
  end if;
  for way in
    select r.id, r.queue, r.type, c.queued, c.delayed, c.executing, c.failed
    from routes r left join (select * from live_totals(of_queue) where counts) c on c.route_id = r.id
    where (of_queue is null or r.queue = of_queue) and r.id >= next_route and (counts or r.id < counted)
    order by r.id limit most
  loop
    over_at := coalesce(over_at, clock_timestamp() + interval '50 ms');
    n := n + 1;
    last_id := way.id;
    queue := way.queue;
    type := way.type;
    queued := coalesce(way.queued, 0);
    delayed := coalesce(way.delayed, 0);
    executing := coalesce(way.executing, 0);
    failed := coalesce(way.failed, 0);
    oldest_due := null;
    -- What was submitted just now may be due by the clock and count as delayed for the rest of the second.
    if looks and (not counts or queued + failed + delayed > 0) then
      level := coalesce(level, (select t.priority from tasks t where t.lane is null and t.route_id = way.id
        order by t.priority desc limit 1));
      while level is not null loop
        oldest_due := least(oldest_due, (select t.run_at from tasks t
          where t.lane is null and t.route_id = way.id and t.priority = level and t.run_at <= statement_timestamp()
            and t.status in ('queued', 'failed')
          order by t.priority desc, t.run_at, t.id + 0 limit 1));
        level := (select t.priority from tasks t where t.lane is null and t.route_id = way.id and t.priority < level
          order by t.priority desc limit 1);
        exit when clock_timestamp() >= over_at;
      end loop;
    end if;
    if counts or oldest_due is not null then
      return next;
    end if;
    if looks then
      next_route := case when level is null then way.id + 1 else way.id end;
      looks := level is null and clock_timestamp() < over_at;
      exit when not looks and not counts;
    end if;
  end loop;
  upto := case when not counts then counted when n = most then last_id + 1 else no_more end;
  if looks then
    next_route := upto;
  end if;
  if next_route < no_more then
    queue := null;
    next_page := concat_ws('|', next_route, coalesce(level::text, ''), upto);
    return next;
  end if;
end $$;

-- How a queue stands, as before, by the counts.
drop function queue_shown(text, int);
create function queue_shown(wanted text) returns table (state text, since timestamptz, waiting bigint, running bigint,
  batch_id bigint) language sql stable as $$
  with q as (select * from queues where name = wanted),
   ways as materialized (select id from routes where queue = wanted),
   live as (
    select coalesce(sum(t.executing), 0)::bigint as running, coalesce(sum(t.queued + t.delayed + t.failed), 0)::bigint as waiting,
      exists (select from tasks b where b.route_id = any(array(select id from ways)) and b.started is not null
        and b.attempt > 0) as begun
    from live_totals(wanted) t),
   open as (select id, queue from batches where phase <> 'ended' offset 0),
   batch as (
    select * from batches where id = coalesce(
      (select o.id from open o join q on q.batch_id = o.id), (select max(id) from open where queue = wanted),
      (select max(id) from batches where queue = wanted))),
   one as (
    select l.*, q.state as halt, q.state_since, b.id as batch_id, b.started_at, b.ended_at, b.phase <> 'ended' as in_batch,
      coalesce(b.phase <> 'ended' and b.success + b.failed > 0, false) as some_ended
    from live l left join q on true left join batch b on true)
  select shown.state,
    case when halt <> 'running' then state_since when shown.state = 'finished' then ended_at
      when in_batch then started_at end, waiting, running, one.batch_id
  from one cross join lateral (select case
    when halt in ('paused', 'stopping', 'stopped') then halt
    when halt = 'held' then 'pending'
    when running > 0 or begun or some_ended and waiting > 0 then 'running'
    when waiting > 0 then 'pending'
    when exists (select from ways) then 'finished'
    else 'created' end as state) shown
$$;

-- The functions that make tasks, or change them, count them from now on. They are as before in all else, so only what comes in is
-- here; a function that has not the place for it stops the migration.
create function add_to_function(what regproc, place text, becomes text) returns void language plpgsql as $$
declare
  before constant text := pg_get_functiondef(what);
  after constant text := regexp_replace(before, place, becomes, 'g');
begin
  if after = before then
    raise exception 'the function % has no place like "%"', what, place;
  end if;
  execute after;
end $$;
do $$ begin
  perform add_to_function('submit_internal', '(returning id into made;)', E'\\1\n  perform tasks_counted(array[made], 1);');
  perform add_to_function('submit_task', '(moment, moment\);)', E'\\1\n    perform tasks_counted(array[id], 1);');
  perform add_to_function('submit', '(moment, moment\);)', E'\\1\n  perform tasks_counted(array[made], 1);');
  perform add_to_function('submit_newer_one', '(if t\.id is null then)', E'perform tasks_counted(array[t.id], -1);\n  \\1');
  perform add_to_function('submit_newer_one', 'restart = null,', 'retrying = null, restart = null,');
  perform add_to_function('submit_newer_one', '(where u\.id = t\.id returning \* into t;)',
    E'\\1\n  perform tasks_counted(array[t.id], 1);');
  perform add_to_function('arrivals_admit_next', '(update tasks set [^;]*where id = any\((late|ids)\);)',
    E'perform tasks_counted(\\2, -1);\n    \\1\n    perform tasks_counted(\\2, 1);');
  perform live_recount(); -- what has ended is counted already
end $$;
drop function add_to_function(regproc, text, text);
