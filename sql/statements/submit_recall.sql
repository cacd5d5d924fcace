-- What calls that came before were answered. $1 request ids.
select u.n, r.task_ids, r.existing, r.kind
from unnest($1::uuid[]) with ordinality u(id, n) join requests r on r.id = any(array[u.id])
