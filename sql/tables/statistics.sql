-- Ended attempts by hour, queue and type, and whether they succeeded; times in microseconds. These rows stay when the
-- tasks are deleted. Hours that are older than a year are added up in the hour 1970-01-02 00:00 UTC (purge_executions).
create table executions (
  hour timestamptz not null,
  queue text not null,
  type text not null,
  well boolean not null,
  count bigint not null,
  total_us bigint not null,
  fastest_us bigint not null,
  slowest_us bigint not null,
  last timestamptz not null,               -- when the last one ended,
  last_us bigint,                          -- and how long it took; null: counted by an old release, which did not note it
  primary key (hour, queue, type, well));

-- How far the attempts are counted. Those that ended before `until` are in `executions`; later ones are still counted
-- row by row. No attempt that ended before `settled` can become visible any more. next_at becomes `settled` once
-- transaction next_xid, which began after next_at, is older than all open transactions: an older transaction than
-- next_xid wrote whatever ended before next_at.
create table executions_rolled (
  one boolean primary key default true check (one),
  until timestamptz not null,
  settled timestamptz not null,
  next_at timestamptz,
  next_xid xid8
) with (fillfactor = 50);
insert into executions_rolled (until, settled)
select at, at from (select date_bin('5 minutes', clock_timestamp(), 'epoch') as at) a;

-- Metrics of applications and managers. changed: since when the metric has its value; updated: when it was last set.
create table metrics (
  category text not null,
  name text not null,
  value numeric not null,                  -- a 64-bit integer, or the shortest text of a double
  changed timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),
  source text not null default '',
  manager_id bigint,                       -- the manager of a counter in category 'manager'; null: an application's
  primary key (category, name)
) with (fillfactor = 50);
create index metrics_of_managers on metrics (manager_id) where manager_id is not null;
