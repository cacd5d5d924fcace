-- One row for each manager that has ever run here. They are equal to each other.
create table managers (
  id bigint generated always as identity primary key,
  name text not null,
  hb_seq bigint not null default 0,
  hb_at timestamptz not null default clock_timestamp(),
  stopped boolean not null default false,
  archives boolean not null default false, -- it writes archive files: while such a manager lives, no partition goes without one
  max_details bigint not null default 1048576, -- the longest details that it takes, in bytes
  -- A clock that is set back: managers tell each other how far ahead it was.
  clock_estimate timestamptz,              -- the manager's estimate of the time
  clock_ahead_until timestamptz,           -- the latest time that the clock showed before it was set back, until it shows it again
  clock_set_back timestamptz,              -- what it showed just after
  clock_set_back_xid xid8,                 -- whatever was written before has a smaller number
  history_days int                         -- --history-days; null: it does not say
) with (fillfactor = 50);

-- Rows to lock, where one manager at a time may do something. An advisory lock would do as well, but any database role may
-- take one; these rows are locked only by those who may update the table.
--   history    making partitions of the history
--   metrics    counting the metrics after new ones were added
--   archive    writing the history to files: `holder` is the manager that does, across its transactions
--   counts     adding up count_changes, or taking a part of the history away
--   worker N   registering a worker whose name has that hash
create table locks (
  name text primary key,
  holder bigint);
insert into locks (name)
select unnest(array['history', 'metrics', 'archive', 'counts']) union all select 'worker ' || n from generate_series(0, 63) n;
