-- The routes of these queues and types. $1 queues, $2 types.
select r.id, r.queue, r.type
from unnest($1::text[], $2::text[]) u(queue, type)
join routes r on r.queue = any(array[u.queue]) and r.type = any(array[u.type]) and r.labels = '{}'
