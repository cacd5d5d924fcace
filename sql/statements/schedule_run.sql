-- Runs a schedule now. $1 request id, $2 name, $3 the actor. The columns are those of schedule_runs.
select run_id, null::timestamptz, at, outcome, task_id, null::text, $3::text, note
from schedule_run($1::uuid, $2::text, $3)
