-- Returns the states of tasks, live or ended. $1 ids.
select id, status, cancel_requested, route_id, priority, run_at, last_updated
from all_tasks where id = any($1::bigint[])
