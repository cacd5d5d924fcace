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
select at, at from (select date_trunc('hour', clock_timestamp(), 'UTC') as at) a;

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
