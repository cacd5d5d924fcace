-- Lists runs of a schedule, newest first, and those of removed schedules with that name; and the id below which there
-- may be more.
-- takes ScheduleRunsRequest: name, before_id, limit
-- gives ScheduleRunsResponse.runs: id, scheduled_us, at_us, outcome, task_id, task_status, actor, note, .next_before_id
select x.*, case when count(*) over () = $3 then min(x.id) over () end
from (
  select r.id, r.scheduled_at, r.at, r.outcome, r.task_id, t.status, r.actor, r.note
  from unnest(schedule_ids($1::text)) s(id)
  cross join lateral (
    select * from schedule_runs x where x.schedule_id between s.id and s.id and x.id < $2::bigint
    order by x.schedule_id desc, x.id desc limit $3::bigint) r
  left join lateral (select status from all_tasks a where a.id = r.task_id limit 1) t on true
  order by r.id desc limit $3) x
order by x.id desc
