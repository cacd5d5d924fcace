-- Brings back the retired ones among these routes.
create or replace function routes_return(ids int[]) returns void language sql as $$
  update routes set retired = null, used = clock_timestamp()
  where id = any(array(select id from routes where id = any(ids) and retired is not null order by queue, type for no key update))
$$;
