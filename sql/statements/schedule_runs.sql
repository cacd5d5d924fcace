-- Lists runs of a schedule, newest first, and those of removed schedules with that name. $1 name, $2 only ids below
-- this, $3 the maximum number.
select r.id, r.scheduled_at, r.at, r.outcome, r.task_id, t.status, r.actor, r.note
from unnest(schedule_ids($1::text)) s(id)
cross join lateral (
  select * from schedule_runs x where x.schedule_id between s.id and s.id and x.id < $2::bigint
  order by x.schedule_id desc, x.id desc limit $3::bigint) r
left join lateral (select status from all_tasks a where a.id = r.task_id limit 1) t on true
order by r.id desc limit $3
