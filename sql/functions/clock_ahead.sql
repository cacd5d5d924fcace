-- While the clock shows less than some manager has seen, stopped or not: returns the furthest estimate of the time, and when
-- the clock was set back; else nulls.
create or replace function clock_ahead() returns table (estimate timestamptz, set_back timestamptz) language sql stable as $$
  select max(greatest(clock_estimate, hb_at)), least(max(clock_set_back), clock_timestamp())
  from managers where greatest(clock_ahead_until, hb_at) > clock_timestamp()
$$;
