-- The orders that stand for workers: those whose attempt still runs. $1 incarnations.
select o.worker_id, o.kind, o.task_id, o.token
from unnest($1::bigint[]) u(id) join orders o on o.worker_id = any(array[u.id])
join tasks t on t.id = any(array[o.task_id]) and t.last_updated = o.token
order by o.worker_id
