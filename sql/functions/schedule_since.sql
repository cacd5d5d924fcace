-- Returns the time after which a new schedule, or one whose times have changed, fires first: now, or, if the change asks for
-- catch-up and has a start in the past, before the latest times since that start that are made up for. Earlier ones were never
-- scheduled, so they do not count as missed.
create or replace function schedule_since(s schedules, change jsonb, moment timestamptz) returns timestamptz language sql stable as $$
  select case when s.every_ms is not null and change ?& array['start_us', 'catch_up'] and s.catch_up <> 'skip' then coalesce(
      (schedule_latest(s, s.start_at - interval '1us', moment, case s.catch_up when 'all' then s.max_catch_up else 1 end))[1]
        - interval '1us', moment)
    else moment end
$$;
