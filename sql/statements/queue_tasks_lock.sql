-- Locks tasks of a queue that wait, and if asked for those that run and have not been told to stop. $1 queue, $2 up to which
-- id, $3 whether also those that run, $4 how many.
select t.id, t.status = 'executing'
from tasks t
where t.id = any(array(
    select w.id from routes r join tasks w on w.route_id = r.id
    where r.queue = $1::text and w.id <= $2::bigint
      and (w.status <> 'executing' or $3::boolean and w.cancel_requested_at is null)
    limit $4::int))
  and (t.status <> 'executing' or $3 and t.cancel_requested_at is null)
order by t.id for no key update
