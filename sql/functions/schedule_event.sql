-- Records a change of a schedule in the audit, and notifies the managers.
create or replace function schedule_event(s schedules, what text, by text, more text default '') returns void language plpgsql as $$
begin
  insert into schedule_events (schedule_id, schedule, event, actor, note) values (s.id, s.name, what, by, more);
  perform pg_notify('reeve_notify', 'schedules');
end $$;
