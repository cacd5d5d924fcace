-- Returns the first `most` scheduled times after `after` up to `upto`.
create or replace function schedule_times(s schedules, after timestamptz, upto timestamptz, most int) returns timestamptz[]
language plpgsql stable as $$
declare
  times timestamptz[] := '{}';
  plan cron_plan;
  at timestamptz := after;
  step numeric := s.every_ms * 1000;
  n numeric;
begin
  if s.cron is not null then
    plan := cron_plan_of(s.cron);
    if plan.problem is not null then
      raise exception using errcode = 'RV400', message = format('cron expression "%s": %s', s.cron, plan.problem);
    end if;
    while cardinality(times) < most loop
      at := cron_after(plan, s.zone, at);
      exit when at is null or at > upto;
      times := times || at;
    end loop;
  elsif s.every_ms is not null and isfinite(after) then
    n := greatest(floor(extract(epoch from after - s.start_at) * 1000000 / step) + 1, 0);
    while cardinality(times) < most loop
      at := s.start_at + interval '1us' * (n * step)::float8;
      exit when at > upto;
      times := times || at;
      n := n + 1;
    end loop;
  end if;
  return times;
end $$;
