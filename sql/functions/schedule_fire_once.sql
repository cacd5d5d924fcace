-- Executes one firing of a schedule, whose row is locked. The outcome is "later" if something temporary prevents it,
-- and null if it was executed before.
create or replace function schedule_fire_once(s schedules, scheduled timestamptz, out outcome text, out task_id bigint, out note text)
language plpgsql as $$
declare
  run bigint;
begin
  if s.concurrency_policy = 'forbid' and exists (select from tasks t where t.id = s.last_task_id) then
    outcome := 'overlapped';
    note := format('task %s of an earlier run had not ended', s.last_task_id);
  end if;
  insert into schedule_runs (schedule_id, scheduled_at, outcome, note)
  values (s.id, scheduled, coalesce(outcome, 'refused'), coalesce(note, ''))
  on conflict do nothing returning id into run;
  if run is null then
    outcome := null;
  elsif outcome is null then
    begin
      select a.outcome, a.task_id, a.note into outcome, task_id, note from schedule_act(s, schedule_key(s, scheduled)) a;
    exception when others then -- its changes are rolled back
      outcome := case
        when schedule_passes(sqlstate) then 'later'
        when sqlstate <> 'RV409' or s.queue_action is null then 'refused'
        when s.queue_action = 'start' then 'later' -- the queue is being stopped
        else 'acted' end;                          -- there is nothing to pause or resume
      note := sqlerrm;
    end;
    if outcome = 'later' then
      delete from schedule_runs where id = run;
    else
      update schedule_runs r set outcome = schedule_fire_once.outcome, task_id = schedule_fire_once.task_id, note = schedule_fire_once.note
      where r.id = run;
    end if;
  end if;
end $$;
