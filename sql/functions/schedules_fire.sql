-- Executes due firings of up to `most` schedules, those that have been due longest first. Returns the outcome of each,
-- and how late it was, then a row without a name: when the next one is due (null: never). The lock timeout is short
-- (100 ms), so that a deadlock with sessions that lock in another order ends soon.
create or replace function schedules_fire(most int)
returns table (schedule_id bigint, schedule text, scheduled timestamptz, outcome text, task_id bigint, note text, late_us bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  now timestamptz := clock_timestamp();
  next_check timestamptz;
  due record;
  taken int := 0;
  fire_until timestamptz; -- from the first firing on: however long the search for it takes, at least one is executed
begin
  perform set_config('lock_timeout', '100', true);
  for due in
    select s as seen, (select t.created from tasks t where t.id = s.last_task_id and s.concurrency_policy = 'queue') as waits_since
    from schedules s
    where not s.paused and s.next_at is not null and greatest(s.next_at, s.retry_at) <= now
    order by greatest(s.next_at, s.retry_at), s.id
  loop
    if due.waits_since is not null then
      -- The younger the task is that it waits for, the more often this is checked. The interval does not depend on how
      -- late the firing is, or a schedule that has fallen behind would be checked less often.
      next_check := least(next_check, now + least(greatest((now - due.waits_since) / 8, interval '50ms'), interval '500ms'));
      continue;
    elsif taken = most or clock_timestamp() > fire_until then
      next_check := now;
      exit;
    end if;
    fire_until := coalesce(fire_until, clock_timestamp() + interval '200ms');
    taken := taken + 1;
    begin
      return query
        select (due.seen).id, (due.seen).name, t.scheduled, t.outcome, t.task_id, t.note,
          (extract(epoch from clock_timestamp() - t.scheduled) * 1000000)::bigint
        from schedule_fire(due.seen, clock_timestamp()) t;
    exception when others then -- for example, the database no longer has its zone
      schedule_id := (due.seen).id;
      schedule := (due.seen).name;
      scheduled := (due.seen).next_at;
      outcome := 'later';
      note := sqlerrm;
      late_us := (extract(epoch from now - scheduled) * 1000000)::bigint;
      update schedules
      set retry_at = clock_timestamp() + case when schedule_passes(sqlstate) then interval '1s' else interval '1 minute' end
      where id = any(array(select id from schedules
        where id = (due.seen).id and last_updated = (due.seen).last_updated for no key update skip locked));
      return next;
    end;
  end loop;
  if taken > 0 then
    next_check := least(next_check, clock_timestamp() + interval '1s'); -- some may have been locked
  end if;
  schedule_id := 0;
  schedule := '';
  scheduled := least(next_check, (select greatest(next_at, retry_at) from schedules
    where not paused and next_at is not null and greatest(next_at, retry_at) > now order by 1 limit 1));
  outcome := '';
  task_id := null;
  note := '';
  late_us := coalesce((extract(epoch from clock_timestamp() - scheduled) * 1000000)::bigint, 0);
  return next;
end $$;
