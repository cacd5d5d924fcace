-- Lists callbacks, newest first. The delivered ones of a state, and of a batch, are searched among up to $5; the last
-- column is the id below which there may be more (0: there are none), in one row without a callback if none was found.
-- `between`, so that a state or a batch is looked up in its index, however frequent the planner believes it to be.
-- takes CallbacksRequest: batch_id?, state?, before_id, limit, @max_scanned
-- gives CallbacksResponse.callbacks: id, batch_id, task_id, event, url, state, attempts, last_status, last_error, created_us, next_us, ended_us,
--   .next_before_id
with scanned as materialized (
  (select id from callbacks
   where $1::bigint is null and coalesce($2::text, 'delivered') = 'delivered' and id < $3
   order by id desc limit case when $2 is null then $4::bigint else $5::bigint end)
  union all
  (select id from callbacks
   where $1::bigint is null and state between $2 and $2 and state <> 'delivered' and id < $3 order by state desc, id desc limit $4)
  union all
  (select id from callbacks
   where batch_id between $1 and $1 and coalesce($2::text, 'delivered') = 'delivered' and id < $3
   order by batch_id desc, id desc limit case when $2 is null then $4::bigint else $5::bigint end)
  union all
  (select id from callbacks
   where batch_id between $1 and $1 and state = $2 and state <> 'delivered' and id < $3 order by batch_id desc, id desc limit $4)),
 found as materialized (
  select c.* from scanned l cross join lateral (select * from callbacks where id = l.id offset 0) c
  where $2::text is null or c.state = $2
  order by c.id desc limit $4)
select c.id, c.batch_id, c.task_id, c.event, c.url, c.state, c.attempts, c.last_status, c.last_error, c.created,
  case when c.state = 'waiting' then c.next_at end as next_at, c.ended_at, n.next_before
from (
  select case when (select count(*) from found) = $4 then (select min(id) from found)
    when (select count(*) from scanned) >= $5 then (select min(id) from scanned) else 0 end as next_before) n
left join found c on true
order by c.id desc
