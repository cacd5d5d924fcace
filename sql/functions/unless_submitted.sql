-- A submit whose request id has been committed meanwhile begins again, and finds what it was answered.
create or replace function unless_submitted(request uuid) returns void language plpgsql as $$
begin
  if exists (select from requests where id = request) then
    raise exception using errcode = '40001', message = 'the call was carried out meanwhile';
  end if;
end $$;
