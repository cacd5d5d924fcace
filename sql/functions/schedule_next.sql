-- Returns the first scheduled time after `after`; null if there is none.
create or replace function schedule_next(s schedules, after timestamptz) returns timestamptz language sql stable as $$
  select (schedule_times(s, after, 'infinity', 1))[1]
$$;
