-- Returns the current worker commands: those whose attempt still runs, and those to the worker itself (task 0).
-- $1 incarnations.
select o.worker_id, o.kind, o.task_id, o.token, o.value
from unnest($1::bigint[]) u(id)
cross join lateral (select * from worker_commands where worker_id = u.id offset 0) o
left join lateral (
  select true as runs from tasks t where t.id = o.task_id and t.last_updated = o.token offset 0) t on true
where o.task_id = 0 or t.runs
order by o.worker_id
