-- The moment that is so many microseconds after 1970.
create or replace function us_time(us bigint) returns timestamptz language sql immutable strict parallel safe as $$
  select timestamptz 'epoch' + interval '1us' * us
$$;
