-- Gives an attempt that fetch began this much time from now on, until LIMIT_TIMEOUT_DAYS days after its claim. Returns when it
-- expires; null if it has lost its lock. It never expires earlier than before.
create or replace function extend(id bigint, token bigint, run_for interval) returns timestamptz language plpgsql security definer
set search_path = reeve, pg_temp as $$
#variable_conflict use_column
declare
  held constant timestamptz := us_time(extend.token);
  run_ms constant bigint := check_interval('run_for', extend.run_for, 1, LIMIT_TIMEOUT_DAYS * 86400000::bigint);
  expires timestamptz;
begin
  if extend.id is null or extend.token is null or run_ms is null then
    raise exception using errcode = '22004', message = case when extend.id is null then 'id' when extend.token is null then 'token'
      else 'run_for' end || ' is NULL';
  end if;
  update tasks t set expiry = greatest(t.expiry, least(clock_timestamp() + interval '1ms' * run_ms,
      t.last_updated + interval '1 day' * LIMIT_TIMEOUT_DAYS) + interval '1ms' * greatest(LIMIT_SQL_GRACE_MS,
      (select case when w.manual then 0 else w.lease_ms end from workers w where w.id = t.worker_id)))
  where t.id = extend.id and t.last_updated = held and t.status = 'executing' returning t.expiry into expires;
  return expires;
end $$;

revoke execute on function extend from public;
