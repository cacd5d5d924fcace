-- Raises 40001 if a submit's request id has been committed since it began. The submit then begins again, and finds the
-- answer of the earlier call.
create or replace function unless_submitted(request uuid) returns void language plpgsql as $$
begin
  if exists (select from requests where id = request) then
    raise exception using errcode = '40001', message = 'the call has been executed';
  end if;
end $$;
