-- Returns the next scheduled time after `moment`, which is now (but see schedule_since). Raises RV400 if there is none, except
-- for a manual schedule.
create or replace function schedule_next_checked(s schedules, moment timestamptz) returns timestamptz language plpgsql as $$
declare
  scheduled timestamptz := schedule_next(s, moment);
begin
  if scheduled is null and s.cron is not null then
    raise exception using errcode = 'RV400', message = format('schedule.cron: "%s" matches no future time', s.cron);
  elsif scheduled is null and s.every_ms is not null then
    raise exception using errcode = 'RV400', message = 'schedule.every_ms: there is no next time; choose a shorter interval or an earlier start_us';
  end if;
  return scheduled;
end $$;
