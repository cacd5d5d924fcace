-- Ends an attempt that fetch began, with an error: see attempt_report. The task is retried by its policy, or after `delay`, while
-- it has attempts left; without `retry` it ends dead.
create or replace function fail(id bigint, token bigint, error text, code text default null, retry boolean default true,
  delay interval default null, remark text default null, stack_trace text default null)
returns text language plpgsql security definer set search_path = reeve, pg_temp as $$
begin
  if retry is null then
    raise exception using errcode = '22004', message = 'retry is NULL';
  elsif not retry and delay is not null then
    raise exception using errcode = '22023', message = 'delay needs retry';
  end if;
  return attempt_report(id, token, case when retry then 'failed' else 'fatal' end, null, error, code, remark, stack_trace,
    check_interval('delay', delay, 1, LIMIT_RETRY_DAYS * 86400000::bigint), null);
end $$;

revoke execute on function fail from public;
