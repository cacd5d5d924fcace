-- Returns how many times were scheduled after `after` and before `until`. By cron, where each time must be computed, it
-- counts to LIMIT_MISSED only.
create or replace function schedule_count(s schedules, after timestamptz, until timestamptz) returns bigint language sql stable as $$
  select case when s.every_ms is not null then
    greatest(ceil(extract(epoch from until - s.start_at) * 1000 / s.every_ms), 0)::bigint
      - greatest(floor(extract(epoch from after - s.start_at) * 1000 / s.every_ms) + 1, 0)::bigint
    else cardinality(schedule_times(s, after, until - interval '1us', LIMIT_MISSED)) end
$$;
