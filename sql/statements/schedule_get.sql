-- Returns a schedule with its task's details and its next scheduled times.
-- takes ShowScheduleRequest: name, preview
-- gives ShowScheduleResponse: schedule.[schedule], schedule.task.details, schedule.scheduled_us
select d.*, s.spec ->> 'details',
  array(
    with recursive scheduled (at, n) as (
      select schedule_next(s, statement_timestamp()), 1 where $2::bigint > 0
      union all
      select schedule_next(s, p.at), p.n + 1 from scheduled p where p.n < $2 and p.at is not null)
    select at from scheduled where at is not null order by n)
from schedules s cross join lateral schedule_shown(s) d
where s.name = $1::text
