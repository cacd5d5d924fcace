-- Removes a schedule in the caller's transaction, as `reeve schedule remove` does. Returns whether there was one.
create or replace function unschedule(name text) returns boolean language plpgsql security definer set search_path = reeve, pg_temp as $$
begin
  perform schedule_control(null, unschedule.name, 'remove', session_user::text);
  return true;
exception when sqlstate 'RV404' then
  return false;
end $$;

revoke execute on function unschedule from public;
