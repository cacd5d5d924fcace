-- Returns when a queued task that was last written at `written` is due, rounded down to the second, and so never later
-- than it may be claimed; null: it was due when it was written.
create or replace function delayed_to(run_at timestamptz, written timestamptz) returns timestamptz language sql immutable parallel safe as $$
  select case when run_at > written then date_bin('1 second', run_at, '2000-01-01 00:00:00+00') end
$$;

-- The same for any task. The last write of an executing task is its claim, which may have come early: after a clock
-- that was ahead was set back.
create or replace function delayed_to(retrying boolean, run_at timestamptz, written timestamptz) returns timestamptz
language sql immutable parallel safe as $$
  select case when retrying is null then delayed_to(run_at, written) end
$$;
