-- Returns the routes of these queues and types. $1 queues, $2 types.
-- OFFSET 0 keeps the plan that finds each by the index, even if the table was believed to be empty when the plan was
-- made.
select r.id, r.queue, r.type
from unnest($1::text[], $2::text[]) u(queue, type)
cross join lateral (
  select * from routes where queue = u.queue and type = u.type offset 0) r
