-- The routes of these queues and types; one that was not in use is from now on. $1 queues, $2 types.
-- The fence keeps the plan that finds each by the index, also where the table was believed to be empty when it was made.
select coalesce(r.id, route_of(u.queue, u.type)), u.queue, u.type
from unnest($1::text[], $2::text[]) u(queue, type)
left join lateral (
  select * from routes where queue = u.queue and type = u.type and labels = '{}' and unused_since is null offset 0) r on true
