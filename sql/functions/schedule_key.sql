-- Returns the key of the task of a firing; null: none. {date} is the date in the schedule's zone. A firing after a gap may
-- stand for a skipped time of the day before, and then has that day's date.
create or replace function schedule_key(s schedules, scheduled timestamptz) returns text language plpgsql stable as $$
declare
  template text := s.spec ->> 'key';
  plan constant cron_plan := cron_plan_of(coalesce(s.cron, '* * * * *'));
  wall timestamp := scheduled at time zone s.zone;
  last_wall constant timestamp := (scheduled - interval '1us') at time zone s.zone;
begin
  template := coalesce(template, case when cardinality(plan.minutes) = 1 and cardinality(plan.hours) = 1 then '{name}:{date}'
    else '{name}:{time}' end);
  if s.cron is not null and last_wall::date <> wall::date and wall <>
    cron_after(plan, 'UTC', (wall - interval '1us') at time zone 'UTC') at time zone 'UTC' then
    wall := least(wall, cron_after(plan, 'UTC', last_wall at time zone 'UTC') at time zone 'UTC');
  end if;
  -- The name last: a placeholder in it is not replaced.
  template := replace(template, '{date}', to_char(wall, 'YYYY-MM-DD'));
  template := replace(template, '{time}', schedule_time_text(scheduled));
  return nullif(replace(template, '{name}', s.name), '');
end $$;
