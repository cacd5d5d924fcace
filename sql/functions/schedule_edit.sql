-- Changes a schedule and returns it. If its times change, the next one is computed from now on; otherwise no due time
-- is lost.
create or replace function schedule_edit(request uuid, of_name text, change jsonb, by text) returns schedules language plpgsql as $$
declare
  s schedules;
  old schedules;
begin
  if batch_request(request, 'schedule_edit', 0) is not null then
    return schedule_locked(of_name);
  end if;
  old := schedule_locked(of_name);
  s := schedule_changed(old, change);
  if (s.cron, s.every_ms, case when s.cron is not null then s.zone end, case when s.every_ms is not null then s.start_at end)
    is distinct from
    (old.cron, old.every_ms, case when s.cron is not null then old.zone end, case when s.every_ms is not null then old.start_at end)
    or change ?& array['start_us', 'catch_up'] and s.catch_up <> 'skip'
  then
    s.next_at := schedule_next_checked(s, schedule_since(s, change, clock_timestamp()));
  end if;
  update schedules set cron = s.cron, zone = s.zone, every_ms = s.every_ms, start_at = s.start_at, spec = s.spec,
    queue_action = s.queue_action, action_queue = s.action_queue, catch_up = s.catch_up, max_catch_up = s.max_catch_up,
    concurrency_policy = s.concurrency_policy, next_at = s.next_at, retry_at = null, updated = clock_timestamp(),
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = s.id returning * into s;
  perform schedule_event(s, 'schedule_edited', by, (select string_agg(what, ', ' order by what) from (
    select key as what from jsonb_object_keys(change) key where key <> 'task'
    union all select 'task.' || key from jsonb_object_keys(change -> 'task') key) x));
  return s;
end $$;
