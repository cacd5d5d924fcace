-- Tasks of one stream (route and priority) that were committed long after they were made, and so lie behind the window's cursor:
-- those due in a stretch of time, in their order. $1 route, $2 priority, $3 and $4 after which (run_at, id), $5 due before
-- this time, $6 how many.
select id, last_updated, run_at, octet_length(details)
from tasks
where lane is null and route_id = $1 and priority = $2 and (run_at, id + 0) > ($3, $4) and run_at < $5
  and status in ('queued', 'failed') and cancel_requested_at is null
order by priority desc, run_at, id + 0 limit $6
