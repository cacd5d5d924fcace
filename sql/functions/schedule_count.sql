-- How many times were planned after `after` before `until`; by cron, where each has to be found, it counts to 1000 only.
create or replace function schedule_count(s schedules, after timestamptz, until timestamptz) returns bigint language sql stable as $$
  select case when s.every_ms is not null then
    greatest(ceil(extract(epoch from until - s.start_at) * 1000 / s.every_ms), 0)::bigint
      - greatest(floor(extract(epoch from after - s.start_at) * 1000 / s.every_ms) + 1, 0)::bigint
    else cardinality(schedule_times(s, after, until - interval '1us', 1000)) end
$$;
