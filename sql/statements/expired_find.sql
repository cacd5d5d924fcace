-- Attempts whose expiry has passed, found through the journal. $1 how many journal rows to look into.
with due as materialized (
  select id, task_ids from assignments
  where closed_at is null and next_expiry <= statement_timestamp() order by next_expiry limit $1)
select t.id, t.last_updated
from due d cross join unnest(d.task_ids) x(id)
cross join lateral (
  select id, last_updated from tasks t
  where t.id = x.id and t.assignment_id = d.id and t.status = 'executing' and t.expiry <= statement_timestamp()
  offset 0) t
order by t.id
