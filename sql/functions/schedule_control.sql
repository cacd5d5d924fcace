-- Pauses, resumes or removes a schedule. A resumed one gets a new next time: times during the pause have no catch-up
-- runs. If it is in that state already, nothing changes. Returns the schedule as it is, or was.
create or replace function schedule_control(request uuid, of_name text, action text, by text) returns schedules language plpgsql as $$
declare
  s schedules;
begin
  if request is not null and batch_request(request, 'schedule_control', 0) is not null then
    select * into s from schedules where name = of_name;
    if not found and action <> 'remove' then
      raise exception using errcode = 'RV404', message = format('there is no schedule "%s"', of_name);
    end if;
    return s;
  end if;
  s := schedule_locked(of_name);
  if action = 'remove' then
    delete from schedules where id = s.id;
    perform schedule_event(s, 'schedule_removed', by);
  elsif s.paused <> (action = 'pause') then
    update schedules set paused = action = 'pause', retry_at = null,
      next_at = case when action = 'pause' then next_at else schedule_next_checked(s, clock_timestamp()) end, updated = clock_timestamp(), last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
    where id = s.id returning * into s;
    perform schedule_event(s, 'schedule_' || action || 'd', by);
  end if;
  return s;
end $$;
