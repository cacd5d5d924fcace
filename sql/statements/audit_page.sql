-- A page of what happened since a time, tasks, workers, queues and schedules together; the last row has no event, but tells where
-- the next page begins, if there is one. $1 where this one begins, or null; $2 since; $3 about how many rows of each kind.
select at, task_id, version, event, worker, worker_id, attempt, actor, note, next_page
from audit_page($1::text, $2::timestamptz, $3::int)
