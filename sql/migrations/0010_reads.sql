-- What listings need that read a bounded part of the tables at a time.

-- A moment as microseconds since 1970, and back.
create function time_us(at timestamptz) returns bigint language sql immutable strict parallel safe as $$
  select (extract(epoch from at) * 1000000)::bigint
$$;
create function us_time(us bigint) returns timestamptz language sql immutable strict parallel safe as $$
  select timestamptz 'epoch' + interval '1us' * us
$$;

-- Where to begin to read the tasks that were submitted since a time: an id below theirs. Ids are in the order of their
-- submits but for those that happen at the same time, for which it goes back a second and some ids.
create function submitted_after(since timestamptz) returns bigint language plpgsql stable as $$
declare
  low bigint := 0;
  high bigint := greatest((select max(id) from tasks), (select max(task_id) from task_history));
  middle bigint;
  early boolean;
begin
  while high - low > 10 loop
    middle := low + (high - low) / 2;
    select created < since - interval '1 s' into early
    from ((select id, created from tasks where id >= middle order by id limit 1)
      union all
      (select task_id, created from task_history where task_id >= middle order by task_id limit 1)) x
    order by id limit 1;
    if early then
      low := middle;
    else
      high := middle;
    end if;
  end loop;
  return greatest(low - 100, 0);
end $$;

-- A page of what happened since a time, tasks, workers, queues and schedules together. It goes over a span of time that has
-- about `most` rows of each kind, and takes about 50 ms at most: `page` says where it begins (null: at `since`), and the last
-- row, which has no event, where the next one does (null: there is no more). Submits are read by their ids, everything else by
-- when it was written, so a page has its own events in order, but the claim of an attempt comes on the page of its end, and
-- a submit that took long may come on a later page.
--   page: since, and from when on, in us; after which id submits are read; the span that was last looked through at once, in us
-- No index is passed over for a scan of a whole table, whatever the statistics say.
create function audit_page(page text, since timestamptz, most int)
returns table (at timestamptz, task_id bigint, version timestamptz, event text, worker text, worker_id bigint, attempt smallint,
  actor text, note text, next_page text)
language plpgsql stable set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := statement_timestamp();
  begun constant timestamptz := clock_timestamp();
  place bigint[] := string_to_array(page, ':')::bigint[];
  since_at timestamptz := coalesce(us_time(place[1]), since);
  from_at timestamptz := coalesce(us_time(place[2]), since_at);
  behind timestamptz;       -- the page ends before this
  after_id bigint := coalesce(place[3], submitted_after(since_at));
  step bigint := least(greatest(coalesce(place[4], 1000000), 1), 864000000000);
  newer_ids bigint;         -- how many submits there are, up to one more than `most`
  last_id bigint;           -- of these
  last_created timestamptz;
  catching boolean;         -- submits have to catch up: ids and times of those that came at once may be in different orders
  stop_id bigint;           -- the first that is not of this page
  reached timestamptz;
  upto timestamptz;
  found_rows bigint := 0;
  n bigint;
begin
  if cardinality(place) <> 4 or from_at is null or after_id is null then
    raise exception using errcode = 'RV400', message = format('page "%s" is none that was given', left(page, 100));
  end if;
  behind := least(now_at,
    (select last_updated from task_attempts where last_updated >= from_at order by last_updated offset most limit 1),
    (select at from task_events where at >= from_at order by at offset most limit 1),
    (select at from worker_events where at >= from_at order by at offset most limit 1),
    (select at from queue_events where at >= from_at order by at offset most limit 1),
    (select at from schedule_events where at >= from_at order by at offset most limit 1));
  select count(*), max(id), (array_agg(created order by id desc))[1] into newer_ids, last_id, last_created
  from (select id, created
    from ((select id, created from tasks where id > after_id order by id limit most + 1)
      union all
      (select task_id, created from task_history where task_id > after_id order by task_id limit most + 1)) x
    order by id limit most + 1) s;
  catching := newer_ids > most and last_created <= from_at;
  if catching then
    behind := from_at;
  else
    behind := greatest(least(behind, case when newer_ids > most then last_created end),
      from_at + interval '1us'); -- all that happened at one instant is on one page
  end if;

  -- How far one comes with that many rows of the history.
  reached := from_at;
  while reached < behind loop
    upto := least(reached + interval '1us' * step, behind);
    select count(*) into n
    from (select from task_history
      where last_updated >= reached and last_updated < upto and keep_until >= (reached at time zone 'UTC')::date
      limit most + 1 - found_rows) h;
    if found_rows + n > most and step > 1 and found_rows = 0 then
      step := greatest(step / 16, 1);
    elsif found_rows + n > most and found_rows > 0 then
      exit;
    else
      found_rows := found_rows + n;
      reached := upto;
      if n * 8 < most and upto < behind then
        step := least(step * 8, 864000000000);
      end if;
      exit when found_rows >= most;
    end if;
    exit when reached > from_at and clock_timestamp() > begun + interval '40 ms';
  end loop;
  behind := reached;

  select min(id) into stop_id
  from (select id, created
    from ((select id, created from tasks where id > after_id order by id limit most + 1)
      union all
      (select task_id, created from task_history where task_id > after_id order by task_id limit most + 1)) x
    order by id limit most + 1) s
  where not catching and created >= greatest(behind, from_at + interval '1us') or newer_ids > most and id = last_id;

  return query
  with ended as materialized (
    select * from task_history
    where last_updated >= from_at and last_updated < behind and keep_until >= (from_at at time zone 'UTC')::date),
  tried as materialized (
    select * from task_attempts where last_updated >= from_at and last_updated < behind)
  select e.at, e.task_id, e.version, e.event, w.name, e.worker_id, e.attempt, e.actor, left(e.note, 300), null::text
  from (
    select created as at, id as task_id, created as version, 0 as place, 'submitted' as event, null::bigint as worker_id,
      null::smallint as attempt, source as actor, '' as note
    from (
      (select id, created, source from tasks where id > after_id and id < coalesce(stop_id, last_id + 1) order by id limit most + 1)
      union all
      (select task_id, created, source from task_history
       where task_id > after_id and task_id < coalesce(stop_id, last_id + 1) order by task_id limit most + 1)) s
    where created >= since_at
    union all
    select t.last_updated, t.id, t.last_updated, 1, 'claimed', t.worker_id, t.attempt, '', 'assignment ' || t.assignment_id
    from (select a.id, a.task_ids from assignments a
      where a.closed_at is null and a.at >= from_at - interval '1 minute' and a.at < behind + interval '1 minute' offset 0) a
    cross join lateral unnest(a.task_ids) x(id)
    cross join lateral (
      select t.* from tasks t
      where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' and t.last_updated >= from_at
        and t.last_updated < behind
      offset 0) t
    union all
    select h.token, h.task_id, h.token, 1, 'claimed', h.worker_id, h.attempt, '', 'assignment ' || h.assignment_id
    from ended h where h.token >= since_at
    union all
    select h.last_updated, h.task_id, h.last_updated, 2, h.status, h.worker_id, case when h.token is not null then h.attempt end,
      '', case when h.status <> 'completed' then concat_ws(': ', h.error_code, h.last_error) else '' end
    from ended h
    union all
    select a.token, a.task_id, a.token, 1, 'claimed', a.worker_id, a.attempt, '', 'assignment ' || a.assignment_id
    from tried a where a.token >= since_at
    union all
    select a.last_updated, a.task_id, a.last_updated, 2,
      case when a.status in ('completed', 'dead', 'cancelled') then a.status else a.outcome end,
      a.worker_id, a.attempt, '', concat_ws(': ', a.error_code, a.error)
    from tried a
    union all
    select at, task_id, version, 3, event, worker_id, null, actor, note from task_events where at >= from_at and at < behind
    union all
    select at, 0, at, 0, event, worker_id, null, actor, note from worker_events where at >= from_at and at < behind
    union all
    select at, 0, at, 0, event, null, null, actor, concat_ws(': ', 'queue ' || queue, nullif(note, ''))
    from queue_events where at >= from_at and at < behind
    union all
    select at, 0, at, 0, event, null, null, actor, concat_ws(': ', 'schedule ' || schedule, nullif(note, ''))
    from schedule_events where at >= from_at and at < behind) e
  left join workers w on w.id = e.worker_id
  order by e.version, e.task_id, e.place, e.at;

  return query
  select null::timestamptz, null::bigint, null::timestamptz, null::text, null::text, null::bigint, null::smallint, null::text,
    null::text, case when behind < now_at or newer_ids > most and stop_id = last_id
      then concat_ws(':', time_us(since_at), time_us(behind), coalesce(stop_id - 1, last_id, after_id), step) end;
end $$;

-- How many tasks ended how, so that nobody has to count them: whoever adds to the history or takes from it adds a row to
-- history_changes in the same transaction, one for each group of a statement, and history_fold adds these up. The sum over both
-- tables is exact for everybody, at all times. By the day they may go as well, since they go by days.
create table history_counts (
  route_id int not null,                   -- 0: ended before its route was known
  status text not null,
  count bigint not null,
  primary key (route_id, status));
create table history_day_counts (
  keep_until date not null,
  route_id int not null,
  status text not null,
  count bigint not null,
  primary key (keep_until, route_id, status));
create table history_changes (
  keep_until date not null,
  route_id int not null,
  status text not null,
  count bigint not null                    -- by how many it has grown, or fewer than 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Counts everything anew, while nobody ends tasks: after rows of the history were changed by hand, for example.
create function history_recount() returns void language plpgsql as $$
begin
  lock table task_history in share mode;
  delete from history_changes;
  delete from history_counts;
  delete from history_day_counts;
  insert into history_day_counts select keep_until, route_id, status, count(*) from task_history group by 1, 2, 3;
  insert into history_counts select route_id, status, sum(count) from history_day_counts group by 1, 2;
end $$;
do $$ begin
  perform history_recount();
end $$;

create view history_totals as
  select route_id, status, sum(count)::bigint as count
  from (select route_id, status, count from history_counts union all select route_id, status, count from history_changes) c
  group by route_id, status;

-- Few leave the history but with their day: those that are retried. Statements that add to it count for themselves.
create function history_left() returns trigger language plpgsql as $$
begin
  insert into history_changes (keep_until, route_id, status, count)
  select keep_until, route_id, status, -count(*) from gone group by 1, 2, 3;
  return null;
end $$;
create trigger history_left after delete on task_history referencing old table as gone
  for each statement execute function history_left();

-- Adds changes up, many at a time; two that do it at once take different ones. Returns how many it took.
create function history_fold() returns bigint language sql as $$
  with taken as (
    delete from history_changes where ctid = any(array(select ctid from history_changes limit 20000 for update skip locked))
    returning keep_until, route_id, status, count),
   days as (
    insert into history_day_counts as c (keep_until, route_id, status, count)
    select keep_until, route_id, status, sum(count) from taken group by 1, 2, 3 order by 1, 2, 3
    on conflict (keep_until, route_id, status) do update set count = c.count + excluded.count),
   totals as (
    insert into history_counts as c (route_id, status, count)
    select route_id, status, sum(count) from taken group by 1, 2 order by 1, 2
    on conflict (route_id, status) do update set count = c.count + excluded.count)
  select count(*) from taken
$$;

-- As before, and what was in it is no longer counted. While the table is being dropped nobody adds to the history.
create or replace function drop_history_partition(partition text) returns void language plpgsql as $$
declare
  day date := to_date(substring(partition from '[0-9]{8}$'), 'YYYYMMDD');
begin
  for n in 1 .. 100 loop
    exit when history_fold() = 0; -- so that there is little left to do while everybody waits
  end loop;
  execute format('drop table if exists reeve.%I', partition);
  update archives a set dropped = clock_timestamp() where a.partition = $1 and a.dropped is null;
  while history_fold() > 0 loop
  end loop;
  with gone as (delete from history_day_counts where keep_until = day returning route_id, status, count)
  update history_counts c set count = c.count - g.count
  from (select route_id, status, sum(count) as count from gone group by 1, 2) g
  where c.route_id = g.route_id and c.status = g.status;
  delete from history_counts where count = 0;
end $$;

-- Counts live tasks by route: the next `most` of them at most, for about 50 ms. What belongs to one route may come on several
-- pages, and is to be added up then. The last row has no queue, but tells where the next page begins (null: there is no more).
-- A route without tasks has a row of zeros.
--   page: the route, the priority in it (empty: its highest), and when the last task that was counted is due, and its id
create function live_counts(of_queue text, page text, most int)
returns table (queue text, type text, queued bigint, delayed bigint, executing bigint, failed bigint, oldest_due timestamptz,
  next_page text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := statement_timestamp();
  over_at constant timestamptz := clock_timestamp() + interval '50 ms';
  place constant text[] := string_to_array(page, '|');
  way routes;
  level int := nullif(place[2], '')::int;
  last_at timestamptz := coalesce(place[3], '-infinity')::timestamptz;
  last_id bigint := coalesce(place[4], '0')::bigint;
  room int := most;
  chunk int;                -- looks at the clock after so many
  n record;
begin
  if cardinality(place) <> 4 then
    raise exception using errcode = 'RV400', message = format('page "%s" is none that was given', left(page, 100));
  end if;
  for way in
    select * from routes r where (of_queue is null or r.queue = of_queue) and r.id >= coalesce(place[1], '0')::int order by r.id
  loop
    queued := 0;
    delayed := 0;
    executing := 0;
    failed := 0;
    oldest_due := null;
    level := coalesce(level, (select t.priority from tasks t where t.lane is null and t.route_id = way.id
      order by t.priority desc limit 1));
    while level is not null and room > 0 and (room = most or clock_timestamp() < over_at) loop
      chunk := least(room, 500);
      select count(*) as counted, (array_agg(t.run_at))[chunk] as last_at, (array_agg(t.id))[chunk] as last_id,
        count(*) filter (where t.status = 'queued' and t.run_at <= now_at) as queued,
        count(*) filter (where t.status = 'queued' and t.run_at > now_at) as delayed,
        count(*) filter (where t.status = 'executing') as executing, count(*) filter (where t.status = 'failed') as failed,
        min(t.run_at) filter (where t.status <> 'executing' and t.run_at <= now_at) as oldest
      into n
      from (select x.status, x.run_at, x.id from tasks x
        where x.lane is null and x.route_id = way.id and x.priority = level and (x.run_at, x.id + 0) > (last_at, last_id)
        order by x.run_at, x.id + 0 limit chunk) t;
      queued := queued + n.queued;
      delayed := delayed + n.delayed;
      executing := executing + n.executing;
      failed := failed + n.failed;
      oldest_due := least(oldest_due, n.oldest);
      if n.counted = chunk then -- there may be more of that priority
        last_at := n.last_at;
        last_id := n.last_id;
      else
        level := (select t.priority from tasks t where t.lane is null and t.route_id = way.id and t.priority < level
          order by t.priority desc limit 1);
        last_at := '-infinity';
        last_id := 0;
      end if;
      room := room - n.counted;
    end loop;
    queue := way.queue;
    type := way.type;
    return next;
    if room <= 0 or clock_timestamp() >= over_at then
      queue := null;
      next_page := case when level is not null then concat_ws('|', way.id, level, last_at, last_id)
        else concat_ws('|', way.id + 1, '', '-infinity', 0) end;
      return next;
      return;
    end if;
  end loop;
  queue := null;
  return next;
end $$;

-- How a queue stands, as before; but only so many of its live tasks are counted (`more`: there are more that wait), and what
-- runs is found by the journal.
drop function queue_shown(text);
create function queue_shown(wanted text, most int default 2000) returns table (state text, since timestamptz, waiting bigint,
  running bigint, more boolean, batch_id bigint) language sql stable as $$
  with q as (select * from queues where name = wanted),
   ways as materialized (select id from routes where queue = wanted),
   held as (
    select count(*) as running
    from (select a.id, a.task_ids from assignments a where a.closed_at is null offset 0) a
    cross join lateral unnest(a.task_ids) x(id)
    cross join lateral (
      select t.route_id from tasks t where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' offset 0) t
    where t.route_id = any(array(select id from ways))),
   live as (
    select held.running, count(*) filter (where t.status <> 'executing') as waiting, count(*) > most as more,
      exists (select from tasks b where b.route_id = any(array(select id from ways)) and b.started is not null
        and b.attempt > 0) as begun
    from held left join lateral (
      select x.status from ways w cross join lateral (
        select y.status from tasks y where y.route_id = w.id and y.lane is null limit most + 1) x
      limit most + 1) t on true
    group by held.running),
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
      when in_batch then started_at end, waiting, running, more, one.batch_id
  from one cross join lateral (select case
    when halt in ('paused', 'stopping', 'stopped') then halt
    when halt = 'held' then 'pending'
    when running > 0 or begun or some_ended and waiting > 0 then 'running'
    when waiting > 0 then 'pending'
    when exists (select from ways) then 'finished'
    else 'created' end as state) shown
$$;
