-- Runs a schedule now.
-- takes RunScheduleRequest: @request_id, name, @actor
-- gives RunScheduleResponse: run.id, run.at_us, run.outcome, run.task_id, run.actor, run.note
select run_id, at, outcome, task_id, $3::text, note from schedule_run($1::uuid, $2::text, $3)
