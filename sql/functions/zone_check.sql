-- Returns what is wrong with the name of a time zone; null: nothing.
create or replace function zone_check(zone text) returns text language sql stable as $$
  select problem from zone_find(zone)
$$;
