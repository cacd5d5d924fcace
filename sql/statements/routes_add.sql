-- Makes the routes that do not exist yet, brings back those that are retired, and returns all of them. The id is null where
-- somebody else is making the route: it is there when this has ended (routes_find.sql). $1 queues, $2 types.
-- The fence keeps the plan that finds each by the index, also where the table was believed to be empty when it was made.
with asked as (
  select distinct queue, type from unnest($1::text[], $2::text[]) u(queue, type)),
 found as (
  select r.id, queue, type, r.retired from asked a
  cross join lateral (
    select id, retired from routes where queue = a.queue and type = a.type and labels = '{}' offset 0) r),
 back as (
  update routes set retired = null, used = clock_timestamp()
  where id = any(array(
    select id from routes where id = any(array(select id from found where retired is not null))
    order by queue, type for no key update))),
 made as (
  insert into routes (queue, type)
  select queue, type from asked where (queue, type) not in (select queue, type from found) order by queue, type
  on conflict do nothing
  returning id, queue, type)
select coalesce(f.id, m.id), queue, type
from asked a left join found f using (queue, type) left join made m using (queue, type)
