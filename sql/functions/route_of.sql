-- Returns the number of a route; creates the route if necessary.
create or replace function route_of(wanted_queue text, wanted_type text) returns int language plpgsql as $$
declare
  found int;
begin
  select id into found from routes where queue = wanted_queue and type = wanted_type;
  if found is null then
    insert into routes (queue, type) values (wanted_queue, wanted_type) on conflict do nothing returning id into found;
    if found is null then
      select id into found from routes where queue = wanted_queue and type = wanted_type;
    end if;
  end if;
  return found;
end $$;
