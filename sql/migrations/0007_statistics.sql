-- Results, statistics of executions, metrics, and views for people.

-- What a task of that type was when the attempt ended; null in rows from before, whose task is asked.
alter table task_attempts
  add column if not exists queue text,
  add column if not exists type text;

-- Finds what ended lately without a walk over all that is kept: the rows lie in the order of time. It is summarized by the way
-- (history_summarize), as autosummarize would have every completion write to it: 1.2 us each, a tenth of all that it takes.
create index task_history_ended on task_history using brin (last_updated) with (pages_per_range = 32);

-- What the attempts of a task come to. error_count: how many ended badly, as `reeve errors` counts them. recoverable: whether
-- the last error was one that is tried again; null: there is none, or nobody can tell. processing_ms: how long the latest
-- attempt that has ended took, from claim to end. The attempt that ended a task is not among the attempts: it is what
-- `started` tells of, unless that one is there.
create function attempts_told(of_task bigint, task_status text, task_error text, task_recoverable boolean, task_started timestamptz,
  task_ended timestamptz) returns table (error_count int, recoverable boolean, processing_ms bigint)
language sql stable as $$
  select (coalesce(a.bad, 0) + (task_status = 'dead' and by_attempt)::int)::int,
    case when task_status in ('dead', 'cancelled') then task_recoverable
      when task_error is not null then a.last_bad <> 'dead' end,
    (case when by_attempt then extract(epoch from task_ended - task_started) * 1000 else a.took end)::bigint
  from (
    select count(*) filter (where bad) as bad, coalesce(bool_or(token = task_started), false) as known,
      (array_agg(outcome order by token desc) filter (where bad))[1] as last_bad,
      (array_agg(extract(epoch from last_updated - token) * 1000 order by token desc)
        filter (where outcome <> 'taken_back'))[1] as took
    from (
      select *, outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
        or outcome in ('lease_ended', 'taken_back') and status in ('failed', 'dead') as bad
      from task_attempts where task_id = of_task) b) a
  cross join lateral (select task_ended is not null and task_started is not null and not a.known as by_attempt) e
$$;

-- Attempts that ended, by hour, queue and type; times in microseconds. They stay when the tasks go.
create table executions (
  hour timestamptz not null,
  queue text not null,
  type text not null,
  count bigint not null,
  completed bigint not null,
  total_us bigint not null,
  fastest_us bigint not null,
  slowest_us bigint not null,
  last timestamptz not null,
  primary key (hour, queue, type));

-- How far they have come: `until` parts what stands in `executions` from what is still counted row by row. Nothing that ended
-- before `settled` can appear any more. next_at is to be settled when transaction next_xid, which began after it, is older
-- than all that are open: whatever ended before next_at was written by an older one.
create table executions_rolled (
  one boolean primary key default true check (one),
  until timestamptz not null,
  settled timestamptz not null,
  next_at timestamptz,
  next_xid xid8
) with (fillfactor = 50);
insert into executions_rolled (until, settled)
select at, at from (select date_trunc('hour', least(clock_timestamp(), (select min(last_updated) from task_history),
  (select min(last_updated) from task_attempts)), 'UTC') as at) a;

-- Attempts that ended in [from_at, to_at). kept_from: not later than the day of from_at (UTC), before which nothing of that can
-- go. with_task: queue and type are wanted, of older attempts too, whose tasks are looked up for it.
create function executions_raw(from_at timestamptz, to_at timestamptz, kept_from date, with_task boolean)
returns table (queue text, type text, well boolean, ended timestamptz, us bigint) language sql stable as $$
  select coalesce(a.queue, t.queue, ''), coalesce(a.type, t.type, ''), a.outcome = 'completed', a.last_updated,
    (extract(epoch from a.last_updated - a.token) * 1000000)::bigint
  from task_attempts a left join lateral (
    select live.queue, live.type from tasks live where with_task and a.queue is null and live.id = a.task_id
    union all
    select h.queue, h.type from task_history h where with_task and a.queue is null and h.task_id = a.task_id
    offset 0) t on true
  where a.last_updated >= from_at and a.last_updated < to_at and a.outcome <> 'taken_back'
  union all
  select h.queue, h.type, h.status = 'completed', h.last_updated, (extract(epoch from h.last_updated - h.token) * 1000000)::bigint
  from task_history h
  where h.token is not null and h.last_updated >= from_at and h.last_updated < to_at and h.keep_until >= kept_from
$$;

-- Tells the index of what has ended in which pages that is, of partitions that may have got rows since. What is new is looked
-- through by everybody who asks, until then. Waits for nobody, and leaves it to autovacuum where the tables are another role's.
create function history_summarize() returns int language plpgsql as $$
declare
  part regclass;
  made int := 0;
begin
  for part in
    select x.indrelid from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid join pg_class c on c.oid = x.indrelid
    where i.inhparent = 'reeve.task_history_ended'::regclass
      and (c.relname !~ '_[0-9]{8}$' or right(c.relname, 8) >= to_char(now() - interval '1 day', 'YYYYMMDD'))
  loop
    begin
      execute format('lock table %s in share update exclusive mode nowait', part);
      made := made + (select sum(brin_summarize_new_values(i.inhrelid)) from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
        where i.inhparent = 'reeve.task_history_ended'::regclass and x.indrelid = part);
    exception when lock_not_available or insufficient_privilege or undefined_table then
      null;
    end;
  end loop;
  return made;
end $$;

-- Counts further minutes that are over, five at a time and for about 100 ms, once each: whoever has the row of how far they
-- have come does it. Answers whether there is more to do now.
create function executions_roll() returns boolean language plpgsql as $$
declare
  r executions_rolled;
  slice constant interval := '5 minutes';
  upto timestamptz;
begin
  select * into r from executions_rolled for no key update skip locked;
  if not found then
    return false; -- another manager does it
  end if;
  -- A clock that was ahead has been set back: what ends now, up to where it had come, would never be counted. It is counted again
  -- from this hour on, of which all rows are still there.
  if r.settled > now() then
    r.until := least(r.until, date_trunc('hour', now(), 'UTC'));
    r.settled := r.until;
    r.next_at := null;
    r.next_xid := null;
    delete from executions where hour >= r.until;
  end if;
  -- now() is when this transaction began, before it got its number. Clocks that are set back by less than a minute are no harm.
  upto := date_bin(slice, now() - interval '1 minute', 'epoch');
  if pg_snapshot_xmin(pg_current_snapshot()) > r.next_xid then
    r.settled := r.next_at;
    r.next_at := null;
    r.next_xid := null;
  end if;
  if r.next_at is null and upto > r.settled then
    r.next_at := upto;
    r.next_xid := pg_current_xact_id();
    perform history_summarize();
  end if;
  while r.until < r.settled and clock_timestamp() < now() + interval '100 ms' loop
    upto := least(date_bin(slice, r.until, 'epoch') + slice, r.settled);
    insert into executions as x (hour, queue, type, count, completed, total_us, fastest_us, slowest_us, last)
    select date_trunc('hour', r.until, 'UTC'), queue, type, count(*), count(*) filter (where well), sum(us)::bigint, min(us),
      max(us), max(ended)
    from executions_raw(r.until, upto, (r.until at time zone 'UTC')::date, true)
    group by queue, type
    on conflict (hour, queue, type) do update set count = x.count + excluded.count, completed = x.completed + excluded.completed,
      total_us = x.total_us + excluded.total_us, fastest_us = least(x.fastest_us, excluded.fastest_us),
      slowest_us = greatest(x.slowest_us, excluded.slowest_us), last = greatest(x.last, excluded.last);
    r.until := upto;
  end loop;
  update executions_rolled set until = r.until, settled = r.settled, next_at = r.next_at, next_xid = r.next_xid
  where (until, settled) is distinct from (r.until, r.settled) or next_at is distinct from r.next_at;
  return r.until < r.settled;
end $$;

-- Numbers of applications, and those of the managers. changed: since when it has this value; updated: when it was put last.
create table metrics (
  category text not null,
  name text not null,
  value float8 not null,
  changed timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),
  source text not null default '',
  manager_id bigint,                       -- whose counter it is, in category 'manager'; null: an application's
  primary key (category, name)
) with (fillfactor = 50);
create index metrics_of_managers on metrics (manager_id) where manager_id is not null;

-- Puts metrics of applications; of one that is there twice the last. There may be `most` of them. Whose row lock comes last
-- wins, and has the later time. Answers when.
create function metrics_put(in_categories text[], in_names text[], new_values float8[], by text, most int) returns timestamptz
language plpgsql as $$
#variable_conflict use_column
declare
  made bigint;
begin
  with put as (
    insert into metrics as m (category, name, value, source)
    select distinct on (category, name) category, name, value, by
    from unnest(in_categories, in_names, new_values) with ordinality u(category, name, value, n)
    order by category, name, n desc
    on conflict (category, name) do update set value = excluded.value, source = excluded.source,
      updated = greatest(clock_timestamp(), m.updated),
      changed = case when m.value = excluded.value then m.changed else greatest(clock_timestamp(), m.updated) end
    returning m.xmax = 0 as made)
  select count(*) filter (where put.made) into made from put;
  if made > 0 then
    perform pg_advisory_xact_lock(hashtext('reeve.metrics')); -- what others have made is counted when it is committed
    if (select count(*) from metrics where manager_id is null) > most then
      raise exception using errcode = 'RV429',
        message = format('there are %s metrics already, as many as there may be; no further names are taken', most);
    end if;
  end if;
  return clock_timestamp();
end $$;

-- Tasks that ended dead.
create view dead_tasks as
  select h.task_id as id, h.queue, h.type, h.error_code, h.last_error as error, h.recoverable, h.attempt, h.max_attempts,
    h.last_updated as died, w.name as worker, h.key, h.batch_id, h.source, h.created, h.first_started, h.remark, h.details
  from task_history h left join workers w on w.id = h.worker_id
  where h.status = 'dead';

-- Tasks that execute, those that do so longest first.
create view long_running_tasks as
  select t.id, t.queue, t.type, t.last_updated as since, clock_timestamp() - t.last_updated as running,
    interval '1 ms' * t.timeout_ms as timeout, t.expiry, t.attempt, t.max_attempts, w.name as worker, w.host,
    t.cancel_requested_at is not null as cancel_requested, t.key, t.batch_id, t.source, t.created, t.remark, t.details
  from tasks t left join workers w on w.id = t.worker_id
  where t.status = 'executing'
  order by t.last_updated;
