-- Executes one firing of a schedule, whose row is locked. The outcome is "later" if something temporary prevents it,
-- and null if it was executed before. If the time was missed, and an edit makes up for it, the run takes the place of the
-- line of missed times, and has its note.
create or replace function schedule_fire_once(s schedules, scheduled timestamptz, out outcome text, out task_id bigint, out note text)
language plpgsql as $$
declare
  run bigint;
  missed schedule_runs;
begin
  loop
    insert into schedule_runs (schedule_id, scheduled_at, outcome) values (s.id, scheduled, 'refused')
    on conflict do nothing returning id into run;
    exit when found;
    delete from schedule_runs r
    where r.schedule_id = s.id and r.scheduled_at = scheduled and r.outcome = 'missed' returning r.* into missed;
    if not found then
      return;
    end if;
  end loop;
  if s.concurrency_policy = 'forbid' and exists (select from tasks t where t.id = s.last_task_id) then
    outcome := 'overlapped';
    note := format('task %s of an earlier run had not ended', s.last_task_id);
  else
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
  end if;
  if outcome = 'later' then
    delete from schedule_runs where id = run;
    insert into schedule_runs overriding system value select missed.* where missed.id is not null;
    return;
  end if;
  note := concat_ws('; ', nullif(missed.note, ''), nullif(note, ''));
  update schedule_runs r set outcome = schedule_fire_once.outcome, task_id = schedule_fire_once.task_id, note = schedule_fire_once.note
  where r.id = run;
end $$;
