-- Runs a schedule manually, even if it is paused, and whatever its concurrency policy. The lock timeout is 1 s, since
-- an application's open transaction may have the key; then it raises RV503.
create or replace function schedule_run(request uuid, wanted text, by text)
returns table (run_id bigint, outcome text, task_id bigint, note text, at timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  s schedules;
  run bigint := nextval(pg_get_serial_sequence('schedule_runs', 'id'));
  earlier bigint;
  made record;
  template text;
begin
  select * into s from schedules where name = wanted for no key update;
  earlier := batch_request(request, 'schedule run', run);
  if earlier is not null then
    return query select r.id, r.outcome, r.task_id, r.note, r.at from schedule_runs r where r.id = earlier;
    return;
  end if;
  if s.id is null then
    raise exception using errcode = 'RV404', message = format('there is no schedule "%s"', wanted);
  end if;
  template := s.spec ->> 'key';
  perform set_config('lock_timeout', '1000', true);
  begin
    select * into made from schedule_act(s, case
      when template ~ '\{(date|time)\}' or template is null then
        case when octet_length(s.name) <= LIMIT_NAME_BYTES - 44 then s.name || ':' else '' end || 'manual:' || request -- a key has LIMIT_NAME_BYTES bytes at most
      else nullif(replace(template, '{name}', s.name), '') end);
  exception when lock_not_available then
    raise exception using errcode = 'RV503',
      message = 'its key, queue or batch is used by a transaction that is not committed yet; try again';
  end;
  insert into schedule_runs (id, schedule_id, outcome, task_id, actor, note) overriding system value
  values (run, s.id, made.outcome, made.task_id, by, made.note);
  -- While the task of a firing lives, it stays the one that the next may overlap.
  update schedules u set last_task_id = made.task_id,
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = s.id and made.task_id is not null and not exists (select from tasks t where t.id = u.last_task_id);
  return query select r.id, r.outcome, r.task_id, r.note, r.at from schedule_runs r where r.id = run;
end $$;
