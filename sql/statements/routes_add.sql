-- Creates the routes that do not exist yet, brings back retired ones, and returns all of them. The id is null if
-- another session is creating the route: it exists when this statement has ended (routes_find.sql). $1 queues,
-- $2 types.
-- OFFSET 0 keeps the plan that finds each by the index, even if the table was believed to be empty when the plan was
-- made.
with asked as (
  select distinct queue, type from unnest($1::text[], $2::text[]) u(queue, type)),
 found as (
  select r.id, queue, type, r.retired from asked a
  cross join lateral (
    select id, retired from routes where queue = a.queue and type = a.type offset 0) r),
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
