-- Locks waiting tasks of a queue, and if requested those that run without a request to stop. Each row has how many were
-- chosen; other sessions may have taken some of them before they were locked. If the number is the limit, there may be
-- more. One row without an id if none is left. The index tasks_ready finds them, however many tasks other queues have:
-- "lane is null" and "id + 0" are for that. $1 queue, $2 up to which id, $3 whether also those that run, $4 the limit.
with chosen as materialized (
  select array(
    select id from tasks
    where route_id = any(array(select id from routes where queue = $1::text)) and lane is null and id + 0 <= $2::bigint
      and (status <> 'executing' or $3::boolean and cancel_requested_at is null)
    limit $4::int) as ids),
 locked as materialized (
  select id, status = 'executing' as runs from tasks
  where id = any((select ids from chosen)::bigint[])
    and (status <> 'executing' or $3 and cancel_requested_at is null)
  order by id for no key update)
select l.id, l.runs, cardinality(c.ids) from chosen c left join locked l on true order by l.id
