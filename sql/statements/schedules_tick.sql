-- Makes ticks of schedules that are due. $1 of how many schedules at most. The last row, without a schedule, says when to look
-- again, and how long ago that was.
select schedule_id, schedule, planned, outcome, task_id, note, late_us, schedule_time_text(planned)
from schedules_tick($1)
