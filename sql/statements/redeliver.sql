-- What a Fetch was given and still holds: asked when it arrives again, or when its claim's commit is unknown.
-- The fence makes this statement a commit of its own where it answers anything, so that what it tells of is on the
-- synchronous standbys, if there are any, before it is told.
-- With queue and type, because a manager that has just started may not know the route yet. $1 incarnation, $2 Fetch id.
with fence as materialized (select pg_logical_emit_message(true, 'reeve', 'fence') as lsn)
select t.id, t.last_updated, t.details, t.attempt, t.max_attempts, t.timeout_ms, t.key, t.route_id, t.assignment_id,
  extract(epoch from t.expiry - clock_timestamp())::float8 * 1000 as expires_in_ms, t.queue, t.type,
  t.stage, (select lsn from fence)
from (
  select id, task_ids from assignments
  where worker_id = $1 and closed_at is null and fetch_id = $2 offset 0) a
cross join unnest(a.task_ids) x(id)
cross join lateral (
  select * from tasks t where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' offset 0) t
