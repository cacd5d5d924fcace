-- Schedules by name, without their tasks' details. $1 only names behind this one, $2 how many.
select name, cron, zone, every_ms, start_at, (spec - 'details')::text, queue_action, action_queue, missed, missed_most, overlap,
  paused, next_at, last_planned, last_at, last_outcome, last_task_id, waits_for, source, created, updated, null::timestamptz[]
from schedules_shown
where name > $1::text
order by name limit $2::bigint
