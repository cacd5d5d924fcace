-- The orders that stand for workers: those whose attempt still runs. $1 incarnations.
select o.worker_id, o.kind, o.task_id, o.token
from unnest($1::bigint[]) u(id)
cross join lateral (select * from orders where worker_id = u.id offset 0) o
cross join lateral (select 1 from tasks t where t.id = o.task_id and t.last_updated = o.token offset 0) t
order by o.worker_id
