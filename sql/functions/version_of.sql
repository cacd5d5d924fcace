-- Converts a time, such as that of a row's last change, to a version for submit.
create or replace function version_of(at timestamptz) returns bigint language sql immutable strict parallel safe as $$
  select (extract(epoch from at) * 1000000)::bigint -- as time_us, which an application's search_path does not find
$$;
