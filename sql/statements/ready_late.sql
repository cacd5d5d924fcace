-- Returns tasks of one stream (route and priority) that were committed long after their creation, so that the cursor of
-- the ready cache has passed them: those due in a span of time, in order. $1 route, $2 priority, $3 and $4 after which
-- (run_at, id), $5 due before this time, $6 the maximum number.
select id, last_updated, run_at, octet_length(details)
from tasks
where lane is null and route_id = $1 and priority = $2 and (run_at, id + 0) > ($3, $4) and run_at < $5
  and status in ('queued', 'failed') and cancel_requested_at is null
order by priority desc, run_at, id + 0 limit $6
