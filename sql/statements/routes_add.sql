-- Makes the routes that do not exist yet, and brings back those that are retired. $1 queues, $2 types.
with back as (
  update routes set retired = null, used = clock_timestamp()
  where id = any(array(
    select id from routes
    where id = any(array(
      select r.id from unnest($1::text[], $2::text[]) u(queue, type)
      cross join lateral (
        select id from routes where queue = u.queue and type = u.type and labels = '{}' and retired is not null offset 0) r))
    order by queue, type for no key update)))
insert into routes (queue, type)
select distinct queue, type from unnest($1::text[], $2::text[]) u(queue, type) order by queue, type
on conflict do nothing
