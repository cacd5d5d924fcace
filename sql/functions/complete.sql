-- Ends an attempt that fetch began, with success: see attempt_report.
create or replace function complete(id bigint, token bigint, result text default '', remark text default null, stage text default null)
returns text language sql security definer set search_path = reeve, pg_temp as $$
  select attempt_report(id, token, 'completed', result, null, null, remark, null, null, stage)
$$;

revoke execute on function complete from public;
