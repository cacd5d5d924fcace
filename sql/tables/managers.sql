-- One row for each manager, until long after it has stopped (purge_managers.sql). All managers are equal.
create table managers (
  id bigint generated always as identity primary key,
  name text not null,
  hb_seq bigint not null default 0,
  hb_at timestamptz not null default clock_timestamp(),
  stopped boolean not null default false,
  archives boolean not null default false, -- it writes archives: while it lives, only archived partitions are dropped
  max_details bigint not null default 1048576, -- the maximum length of details that it accepts, in bytes
  -- If the database's clock is set back, managers share how far it was ahead.
  clock_estimate timestamptz,              -- the manager's estimate of the time
  clock_ahead_until timestamptz,           -- the latest time that the clock showed before it was set back; null once it
                                           -- shows that time again
  clock_set_back timestamptz,              -- what the clock showed just after it was set back
  clock_set_back_xid xid8,                 -- transactions that wrote before that have smaller numbers
  history_days int,                        -- --history-days; null: not known
  version text                             -- its software's version; null: not known
) with (fillfactor = 50);

-- Rows to lock for work that one manager at a time may do. Any database role can take an advisory lock, but only roles
-- that may update this table can lock its rows.
--   history    create partitions of the history
--   metrics    count the metrics after new ones were added
--   archive    write the history to files; `holder` is the manager that does so, across its transactions
--   counts     add up count_changes, remove a part of the history, or retire routes; `holder` is the time, in us, until which
--              due tasks do not count as delayed any more
--   depths     sample how many tasks there are
--   identities create the first admin's access token
--   worker N   register a worker whose name has that hash
create table locks (
  name text primary key,
  holder bigint);
insert into locks (name)
select unnest(array['history', 'metrics', 'archive', 'counts', 'depths', 'identities']) union all select 'worker ' || n from generate_series(0, 63) n;
