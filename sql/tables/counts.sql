-- How many tasks there are and how many ended how, so that nobody has to count them.
--
-- Whoever adds a task, ends one, or changes its route, when it is due or whether it has failed, adds a row to count_changes in the
-- same transaction, one for each group of a statement; counts_fold adds these up. The sum over count_changes and the totals is
-- exact for everybody, at all times. A claim writes nothing but the journal, which tells what executes. So a task counts by what
-- it was when it was last written by anything but a claim:
--   live      its route has it
--   retrying  it failed then (tasks.retrying, which claims leave as it is): it waits as `failed`, or executes after that
--   due       it was queued to a time that had not come yet: it is delayed until then
create table count_changes (
  keep_until date,                         -- of what came to the history or left it; null: nothing did
  route_id int not null,
  status text,
  count bigint not null default 0,         -- by how many the history has grown, or fewer than 0
  due timestamptz,                         -- of those in `live`; null: they are due, or have failed
  live bigint not null default 0,
  retrying bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

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

-- What is in the history; by the day it may go as well, since it goes by days.
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
