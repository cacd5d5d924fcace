-- Executes due firings of schedules. $1 the maximum number of schedules. The last row, without a schedule, has the time
-- of the next check, and how long ago that was.
select schedule_id, schedule, scheduled, outcome, task_id, note, late_us, schedule_time_text(scheduled)
from schedules_fire($1)
