-- Ended attempts by hour, queue and type, and whether they completed; times in microseconds. These rows stay when the
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

-- What managers have done by minute (for a day) and by hour (for a year), queue and type. Managers add their numbers
-- every few seconds; those of a manager that is killed are missing for that time. Exact counts are in `executions`.
create table activity (
  hourly boolean not null,
  at timestamptz not null,                 -- the beginning of the minute or hour
  route_id int not null,                   -- 0: the queues and types beyond --metrics-routes of a manager
  submitted bigint not null,               -- tasks, by calls
  begun bigint not null,                   -- attempts, by their claim
  completed bigint not null,               -- attempts that completed,
  failed bigint not null,                  -- … that did not, not those that were returned or never arrived
  retried bigint not null,                 -- failed attempts after which the task waits for another one
  dead bigint not null,                    -- tasks that ended dead,
  ended bigint not null,                   -- … in any way
  waited bigint[] not null,                -- histogram of the times from when tasks were due to their claim, by the buckets of
                                           -- manager/core/traffic.h
  waited_us bigint not null,               -- the sum of these times
  took bigint[] not null,                  -- the same for attempts, from claim to end
  took_us bigint not null,
  primary key (hourly, at, route_id)
) with (fillfactor = 50);

-- How many tasks there were: a sample a minute (for a day), and the sums of an hour's samples (for a year), by queue. A
-- queue without tasks has no row; the row of all is there whenever a sample was taken.
create table depths (
  hourly boolean not null,
  at timestamptz not null,                 -- the beginning of the minute or hour
  queue text not null,                     -- '': all; 'other': the queues beyond --metrics-routes, and one of that name
  samples int not null,                    -- so many are added up: 1 by minute
  queued bigint not null,                  -- due tasks,
  delayed bigint not null,                 -- … whose time has not come,
  executing bigint not null,
  failed bigint not null,                  -- … that wait for a retry,
  dead bigint not null,                    -- … in the history
  max_queued bigint not null,              -- the maximum of one sample
  max_delayed bigint not null,
  max_executing bigint not null,
  max_failed bigint not null,
  max_dead bigint not null,
  primary key (hourly, queue, at)
) with (fillfactor = 80);
create index depths_at on depths (hourly, at);
