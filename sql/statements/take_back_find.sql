-- Attempts that were given to a worker and never arrived. Its heartbeat said, as one snapshot, what it holds, which Fetches
-- it still waits for and the highest it has sent: what was given to an older Fetch that it does not wait for, and is not
-- held, can never come to run there.
--   $1 incarnation, $2 highest Fetch id sent, $3 Fetch ids waited for, $4 and $5 ids and tokens of the attempts held
select t.id, t.last_updated
from (
  select id, task_ids from assignments
  where worker_id = $1 and closed_at is null and fetch_id <= $2 and fetch_id <> all($3::bigint[]) offset 0) a
cross join unnest(a.task_ids) x(id)
cross join lateral (
  select id, last_updated from tasks t
  where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' offset 0) t
left join unnest($4::bigint[], $5::timestamptz[]) held(id, token) on held.id = t.id and held.token = t.last_updated
where held.id is null
order by t.id
