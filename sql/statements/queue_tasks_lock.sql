-- Locks tasks of a queue that wait, and if asked for those that run and have not been told to stop. Each row has how many were
-- chosen, of which some may have been taken while they were to be locked: there may be more if it was as many as could be. One
-- row without an id if none is left. $1 queue, $2 up to which id, $3 whether also those that run, $4 how many.
with chosen as materialized (
  select array(
    select w.id from routes r join tasks w on w.route_id = r.id
    where r.queue = $1::text and w.id <= $2::bigint
      and (w.status <> 'executing' or $3::boolean and w.cancel_requested_at is null)
    limit $4::int) as ids),
 locked as materialized (
  select id, status = 'executing' as runs from tasks
  where id = any((select ids from chosen)::bigint[])
    and (status <> 'executing' or $3 and cancel_requested_at is null)
  order by id for no key update)
select l.id, l.runs, cardinality(c.ids) from chosen c left join locked l on true order by l.id
