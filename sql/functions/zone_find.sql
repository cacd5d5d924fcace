-- Returns a time zone's proper name, or what is wrong with it. Abbreviations and POSIX rules are refused: they mean
-- less than they seem to, or something else.
create or replace function zone_find(zone text, out proper text, out problem text) language plpgsql stable as $$
begin
  select name into proper from pg_timezone_names
  where lower(name) = lower(zone) and name !~ '^(posix|right)/' and name not in ('Factory', 'localtime', 'posixrules');
  if proper is null then
    problem := format('there is no time zone "%s"; it takes names like UTC, Europe/Berlin and America/New_York', left(zone, 100));
  end if;
end $$;
