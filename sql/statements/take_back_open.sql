-- Which workers have something open at all, before each of them is looked at: of most, who are idle, nothing is. The lowest
-- Fetch that has, in the order of $1; null: none. $1 incarnations, $2 the highest Fetch ids that they have sent.
select (select min(a.fetch_id) from assignments a
  where a.worker_id = u.id and a.closed_at is null and a.fetch_id <= u.highest)
from unnest($1::bigint[], $2::bigint[]) with ordinality u(id, highest, place)
order by u.place
