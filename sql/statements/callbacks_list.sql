-- Callbacks, newest first. $1 of which batch or null, $2 state or null, $3 only ids below this, $4 how many.
select id, batch_id, task_id, event, url, state, attempts, last_status, last_error, created,
  case when state = 'waiting' then next_at end as next_at, ended_at
from callbacks
where id < $3 and ($1::bigint is null or batch_id = $1) and ($2::text is null or state = $2)
order by id desc limit $4
