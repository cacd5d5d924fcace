-- Returns the ids of all schedules that have, or had, a name. Raises RV404 if there are none.
create or replace function schedule_ids(wanted text) returns bigint[] language plpgsql stable as $$
declare
  ids bigint[] := array(select id from schedules where name = wanted
    union select schedule_id from schedule_events where schedule = wanted and event = 'schedule_removed');
begin
  if ids = '{}' then
    raise exception using errcode = 'RV404', message = format('there is no schedule "%s"', wanted);
  end if;
  return ids;
end $$;
