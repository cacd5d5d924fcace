-- Converts a time to microseconds since 1970.
create or replace function time_us(at timestamptz) returns bigint language sql immutable strict parallel safe as $$
  select (extract(epoch from at) * 1000000)::bigint
$$;
