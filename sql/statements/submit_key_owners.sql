-- After a submit that met taken keys: returns their tasks. A separate statement, because the submitting one began
-- before the winner had committed. $1 queues, $2 keys.
select u.n, k.task_id, k.version
from unnest($1::text[], $2::text[]) with ordinality u(queue, key, n)
join keys k on k.queue = any(array[u.queue]) and k.key = any(array[u.key])
order by u.n
