-- Adds a schedule and returns it. Raises RV440 if the name is in use. request: null for an application's transaction.
create or replace function schedule_add(request uuid, of_name text, change jsonb, by text) returns schedules language plpgsql as $$
declare
  s schedules;
  before bigint;
begin
  s.id := nextval(pg_get_serial_sequence('schedules', 'id'));
  before := case when request is not null then batch_request(request, 'schedule_add', s.id) end;
  if before is not null then
    select * into s from schedules where id = before;
    if not found then
      raise exception using errcode = 'RV404', message = format('schedule "%s" was added, and has been removed since', of_name);
    end if;
    return s;
  end if;
  s.name := of_name;
  s.zone := 'UTC';
  s.catch_up := 'one';
  s.max_catch_up := 1;
  s.concurrency_policy := 'queue';
  s.start_at := clock_timestamp();
  s := schedule_changed(s, change);
  s.created := clock_timestamp();
  if not change ? 'start_us' then
    s.start_at := s.created; -- so that it first fires an interval later, however long the checks took
  end if;
  s.next_at := schedule_next_checked(s, schedule_since(s, change, s.created));
  insert into schedules (id, name, cron, zone, every_ms, start_at, spec, queue_action, action_queue, catch_up, max_catch_up, concurrency_policy,
    next_at, source, created, updated)
  overriding system value
  values (s.id, of_name, s.cron, s.zone, s.every_ms, s.start_at, s.spec, s.queue_action, s.action_queue, s.catch_up, s.max_catch_up,
    s.concurrency_policy, s.next_at, by, s.created, s.created)
  on conflict (name) do nothing returning * into s;
  if not found then
    raise exception using errcode = 'RV440', message = format('there is a schedule "%s" already; edit it, or remove it first', of_name);
  end if;
  perform schedule_event(s, 'schedule_added', by);
  return s;
end $$;
