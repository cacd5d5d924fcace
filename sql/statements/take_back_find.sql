-- Attempts that were given to a worker and never arrived. Its heartbeat said, as one snapshot, what it holds, which Fetches
-- it still waits for and the highest it has sent: what was given to an older Fetch that it does not wait for, and is not
-- held, can never come to run there. The last row, without an id, has the lowest Fetch that still has something open.
--   $1 incarnation, $2 highest Fetch id sent, $3 Fetch ids waited for, $4 and $5 ids and tokens of the attempts held,
--   $6 the lowest Fetch to look at
with given as materialized (
  select id, fetch_id, task_ids from assignments
  where worker_id = $1 and closed_at is null and fetch_id between $6 and $2)
(select t.id, t.last_updated, null::bigint as lowest
 from given a
 cross join unnest(a.task_ids) x(id)
 cross join lateral (
   select id, last_updated from tasks t
   where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' offset 0) t
 left join unnest($4::bigint[], $5::timestamptz[]) held(id, token) on held.id = t.id and held.token = t.last_updated
 where held.id is null and a.fetch_id <> all($3::bigint[])
 order by t.id)
union all
select null, null, coalesce((select min(fetch_id) from given), $2)
