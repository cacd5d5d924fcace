-- Executes the due firings of a schedule; `seen` is its row as it was read. The session that changes the row first
-- executes them; all others find it changed. Returns the outcome of each.
create or replace function schedule_fire(seen schedules, now timestamptz)
returns table (scheduled timestamptz, outcome text, task_id bigint, note text) language plpgsql as $$
#variable_conflict use_column
declare
  s schedules := seen;
  last_due timestamptz;
  coming timestamptz;                      -- the first time that is not due
  since timestamptz := now - interval '1 minute';
  on_time int;
  most int;
  wanted timestamptz[];
  first timestamptz;
  n bigint;
begin
  perform from schedules where id = seen.id and last_updated = seen.last_updated for no key update skip locked;
  if not found then
    return;
  end if;
  s.retry_at := null;
  coming := schedule_next(s, s.next_at);
  if coming <= now then
    last_due := (schedule_latest(s, s.next_at, now, 1))[1];
    coming := schedule_next(s, last_due);
  else
    last_due := s.next_at; -- the usual case: one is due
  end if;
  -- A firing that is late by more than a minute was missed, unless it had to wait for the last run.
  on_time := (last_due >= since or s.concurrency_policy = 'queue' and exists (
    select from task_history h where h.task_id = s.last_task_id and h.last_updated >= since))::int;
  -- With short intervals several may have become due since the last check; that alone does not make them missed.
  if s.concurrency_policy <> 'queue' then
    on_time := greatest(on_time, cardinality(
      schedule_latest(s, greatest(s.next_at - interval '1us', now - interval '1s'), now, 10)));
  end if;
  most := case s.catch_up when 'skip' then on_time when 'one' then greatest(on_time, 1) else s.max_catch_up + on_time end;
  wanted := case when last_due > s.next_at then schedule_latest(s, s.next_at, now, most) else '{}' end;
  if cardinality(wanted) < most then
    wanted := s.next_at || wanted;
  end if;
  if wanted[1] is distinct from s.next_at then
    first := s.next_at;
    s.last_at := coalesce((schedule_latest(s, first, coalesce(wanted[1] - interval '1us', now), 1))[1], first);
    s.next_at := coalesce(wanted[1], coming);
    n := 1 + schedule_count(s, first, s.last_at + interval '1us');
    scheduled := s.last_at;
    outcome := 'missed';
    note := case when n = 1 then ''
      when n > LIMIT_MISSED and s.cron is not null then format('more than LIMIT_MISSED were missed, from %s on', schedule_time_text(first))
      else format('%s were missed, from %s on', n, schedule_time_text(first)) end;
    insert into schedule_runs (schedule_id, scheduled_at, outcome, note, missed) values (s.id, scheduled, outcome, note, n)
    on conflict do nothing;
    return next;
  end if;
  for place in 1 .. cardinality(wanted) loop
    scheduled := wanted[place];
    -- Keep the transaction short: the next one executes the rest. Also stop if each run waits for the one before, or
    -- while other schedules are due, so that short intervals do not delay longer ones.
    exit when place > 20 or place > 1 and (
      s.concurrency_policy = 'queue' and exists (select from tasks t where t.id = s.last_task_id)
      or exists (select from schedules o where not o.paused and o.next_at is not null
        and greatest(o.next_at, o.retry_at) <= now and o.id <> s.id));
    select m.* into outcome, task_id, note from schedule_fire_once(s, scheduled) m;
    if outcome = 'later' then
      s.retry_at := clock_timestamp() + interval '1s';
      return next;
      exit;
    elsif outcome is not null then
      return next;
    end if;
    s.last_at := scheduled;
    s.last_task_id := coalesce(task_id, s.last_task_id);
    s.next_at := coalesce(wanted[place + 1], coming);
  end loop;
  if s.next_at <= now then
    s.retry_at := coalesce(s.retry_at, clock_timestamp()); -- schedules that are due already come before the rest
  end if;
  update schedules set next_at = s.next_at, last_at = s.last_at, last_task_id = s.last_task_id, retry_at = s.retry_at,
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = s.id;
end $$;
