-- Returns the schedule with a name, locked. A manager that is about to fire it skips it, or finds last_updated changed.
-- Raises RV404 if there is none.
create or replace function schedule_locked(wanted text) returns schedules language plpgsql as $$
declare
  s schedules;
begin
  select * into s from schedules where name = wanted for no key update;
  if not found then
    raise exception using errcode = 'RV404', message = format('there is no schedule "%s"', wanted);
  end if;
  return s;
end $$;
