-- Converts microseconds since 1970 to a time.
create or replace function us_time(us bigint) returns timestamptz language sql immutable strict parallel safe as $$
  select timestamptz 'epoch' + interval '1us' * us
$$;
