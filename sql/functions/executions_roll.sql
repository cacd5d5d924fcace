-- Counts further past stretches of five minutes, for about 100 ms, each once: only the session that locks the row of
-- executions_rolled counts. Returns whether there is more to do now.
create or replace function executions_roll() returns boolean language plpgsql as $$
declare
  r executions_rolled;
  slice constant interval := '5 minutes';
  upto timestamptz;
begin
  select * into r from executions_rolled for no key update skip locked;
  if not found then
    return false; -- another manager does it
  end if;
  -- A clock that was ahead was set back: attempts that end now, before the time counted so far, would never be counted.
  -- Count again from this hour on; all its rows are still there.
  if r.settled > now() then
    r.until := least(r.until, date_trunc('hour', now(), 'UTC'));
    r.settled := r.until;
    r.next_at := null;
    r.next_xid := null;
    delete from executions where hour >= r.until;
  end if;
  -- now() is when this transaction began, before it got its number. Clocks that are set back by less than a minute do
  -- no harm.
  upto := date_bin(slice, now() - interval '1 minute', 'epoch');
  if r.next_xid >= pg_snapshot_xmax(pg_current_snapshot()) then
    r.next_at := null;
    r.next_xid := null;
  end if;
  if pg_snapshot_xmin(pg_current_snapshot()) > r.next_xid then
    r.settled := r.next_at;
    r.next_at := null;
    r.next_xid := null;
  end if;
  if r.next_at is null and upto > r.settled then
    r.next_at := upto;
    r.next_xid := pg_current_xact_id();
  end if;
  while r.until < r.settled and clock_timestamp() < now() + interval '100 ms' loop
    upto := least(date_bin(slice, r.until, 'epoch') + slice, r.settled);
    insert into executions as x (hour, queue, type, well, count, total_us, fastest_us, slowest_us, last, last_us)
    select date_trunc('hour', r.until, 'UTC'), queue, type, well, count(*), sum(us)::bigint, min(us), max(us), max(ended),
      (max(array[time_us(ended), us]))[2]
    from executions_raw(r.until, upto, (r.until at time zone 'UTC')::date, true)
    group by queue, type, well
    on conflict (hour, queue, type, well) do update set count = x.count + excluded.count,
      total_us = x.total_us + excluded.total_us, fastest_us = least(x.fastest_us, excluded.fastest_us),
      slowest_us = greatest(x.slowest_us, excluded.slowest_us), last = greatest(x.last, excluded.last),
      last_us = case when excluded.last >= x.last then excluded.last_us else x.last_us end;
    r.until := upto;
  end loop;
  update executions_rolled set until = r.until, settled = r.settled, next_at = r.next_at, next_xid = r.next_xid
  where (until, settled) is distinct from (r.until, r.settled) or next_at is distinct from r.next_at;
  return r.until < r.settled;
end $$;
