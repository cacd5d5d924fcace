-- Returns the key of the task of a firing; null: none.
create or replace function schedule_key(s schedules, scheduled timestamptz) returns text language plpgsql stable as $$
declare
  template text := s.spec ->> 'key';
  plan cron_plan;
begin
  if template is null then
    plan := cron_plan_of(coalesce(s.cron, '* * * * *'));
    template := case when cardinality(plan.minutes) = 1 and cardinality(plan.hours) = 1 then '{name}:{date}'
      else '{name}:{time}' end;
  end if;
  -- The name last: a placeholder in it is not replaced.
  template := replace(template, '{date}', to_char(scheduled at time zone s.zone, 'YYYY-MM-DD'));
  template := replace(template, '{time}', schedule_time_text(scheduled));
  return nullif(replace(template, '{name}', s.name), '');
end $$;
