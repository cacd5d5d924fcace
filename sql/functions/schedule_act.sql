-- Executes a schedule: submits its task with a key, or acts on its queue.
create or replace function schedule_act(s schedules, with_key text, out outcome text, out task_id bigint, out note text)
language plpgsql as $$
declare
  made record;
begin
  note := '';
  if s.queue_action is not null then
    outcome := 'acted';
    select format('queue "%s" is %s', s.action_queue, c.state) into note
    from queue_control(request_now(), s.action_queue, s.queue_action, 'schedule ' || s.name) c;
    return;
  end if;
  select t.* into made from submit_task(
    jsonb_build_object('source', 'schedule ' || s.name) || s.spec || jsonb_build_object('key', with_key)) t;
  task_id := made.id;
  outcome := case when made.existing and not made.restarted then 'existing' else 'submitted' end;
  if made.restarted then
    note := 'its key''s task is run again';
  elsif made.existing then
    note := format('key "%s" is that of an earlier task', with_key);
  end if;
end $$;
