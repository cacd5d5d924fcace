-- Counts of live tasks, and of ended tasks by status, so that no query has to count rows.
--
-- A statement that adds tasks, ends them, or changes their route, their due time or whether they have failed, adds rows
-- to count_changes in the same transaction, one for each group of its tasks. counts_fold adds these rows up. The sum of
-- count_changes and the totals is exact in every snapshot. A claim writes only to the journal, which shows what
-- executes. So a task counts by its state at its last write other than a claim:
--   live      it counts for its route
--   retrying  it had failed (tasks.retrying, which claims do not change): it waits as `failed`, or executes after that
--   due       it was queued for a time that had not come yet: it is delayed until then
create table count_changes (
  keep_until date,                         -- the day of the tasks that joined or left the history; null: there are none
  route_id int not null,
  status text,
  count bigint not null default 0,         -- by how many the history has grown; negative if it shrank
  due timestamptz,                         -- when those in `live` are due; null: due already, or failed
  live bigint not null default 0,
  retrying bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create table live_counts (
  route_id int primary key,                -- 0: submitted by SQL and not ingested yet
  live bigint not null,
  retrying bigint not null,
  delayed bigint not null                  -- the sum of its rows in live_due
) with (fillfactor = 50);

-- Delayed tasks by the second in which they are due. When that time has come, counts_fold deletes the row and subtracts
-- its count from live_counts.delayed.
create table live_due (
  due timestamptz not null,
  route_id int not null,
  count bigint not null,
  primary key (due, route_id));

-- Tasks in the history. They are also counted by the day on which they may be deleted, since deletion is by day.
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
