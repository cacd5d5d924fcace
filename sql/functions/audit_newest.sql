-- Returns a page for audit_page from which on there are at least `most` events before `until`, and not many more; fewer if
-- fewer happened since `since`. Its pages end at `ends` (audit_ends). Submits, and rows with an index by time, are read
-- from the newest on. The history, which has only block ranges, is counted backwards in spans of time, as far as
-- necessary.
create or replace function audit_newest(since timestamptz, until timestamptz, most int) returns text
language plpgsql stable set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := least(until, statement_timestamp());
  last_id constant bigint := submitted_before(until);
  from_at timestamptz;
  reached timestamptz := now_at; -- the history is counted back to here
  upto timestamptz;
  step bigint := 1000000;        -- in us
  found_rows bigint := 0;
  n bigint;
begin
  select at into from_at
  from ((select last_updated as at from task_attempts where last_updated >= since and last_updated < now_at
      order by last_updated desc limit most)
    union all
    (select at from task_events where at >= since and at < now_at order by at desc limit most)
    union all
    (select at from worker_events where at >= since and at < now_at order by at desc limit most)
    union all
    (select at from queue_events where at >= since and at < now_at order by at desc limit most)
    union all
    (select at from schedule_events where at >= since and at < now_at order by at desc limit most)
    union all
    (select at from identity_events where at >= since and at < now_at order by at desc limit most)
    union all
    (select created from tasks where id < last_id and created < now_at order by id desc limit most)
    union all
    (select created from task_history where task_id < last_id and created < now_at order by task_id desc limit most)) e
  where at >= since and at < now_at
  order by at desc offset most - 1 limit 1;
  from_at := coalesce(from_at, greatest(since, audit_oldest()));

  while reached > from_at loop
    upto := greatest(reached - interval '1us' * step, from_at);
    select count(*) into n
    from (select from task_history
      where last_updated >= upto and last_updated < reached and keep_until >= (upto at time zone 'UTC')::date
      limit 2 * most) h;
    if n >= 2 * most and step > 1 then
      step := greatest(step / 4, 1);
    else
      found_rows := found_rows + n;
      reached := upto;
      exit when found_rows >= most;
      step := least(step * 64, 864000000000000); -- a query of a long span costs hardly more if it finds little
    end if;
  end loop;
  return concat_ws(':', time_us(reached), time_us(reached), submitted_after(reached),
    greatest(time_us(now_at) - time_us(reached), 1), time_us(audit_ends(until))); -- the first step is the entire span
end $$;
