-- For each worker, in the order of $1: the lowest Fetch that has something open, or null. Most workers are idle; those need no
-- look of their own. $1 incarnations, $2 the highest Fetch ids that they have sent.
select (select min(a.fetch_id) from assignments a
  where a.worker_id = u.id and a.closed_at is null and a.fetch_id <= u.highest)
from unnest($1::bigint[], $2::bigint[]) with ordinality u(id, highest, place)
order by u.place
