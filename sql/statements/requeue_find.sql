-- For many workers at once: returns attempts that were assigned to one and never arrived. The worker's heartbeat
-- reported, as one snapshot, the attempts that it has, the Fetches that it still waits for, and the highest one that it
-- has sent. A task of an older Fetch that the worker does not wait for, and that it does not have, can never run there.
-- For each worker with open rows, a row without an id has the lowest Fetch of these. EXCEPT always hashes or sorts: the
-- planner, which takes every array for a short one, would compare each found attempt with each that the workers have.
--   one element per worker: $1 incarnations, $2 highest Fetch ids sent, $3 the lowest Fetches to check;
--   one element per awaited Fetch: $4 its worker's place in $1, $5 its id;
--   one element per attempt that a worker has: $6 its worker's place in $1, $7 its id, $8 its token
with given as materialized (
  select u.place::int as place, a.id, a.fetch_id, a.task_ids
  from unnest($1::bigint[], $2::bigint[], $3::bigint[]) with ordinality u(id, highest, lowest, place)
  cross join lateral (
    select id, fetch_id, task_ids from assignments
    where worker_id = u.id and closed_at is null and fetch_id between u.lowest and u.highest offset 0) a)
(select missing.id, missing.token, null::bigint as lowest, missing.place
 from (
   select t.id, t.last_updated as token, g.place
   from given g
   cross join unnest(g.task_ids) x(id)
   cross join lateral (
     select id, last_updated from tasks t
     where t.id = x.id and t.assignment_id = g.id and t.status = 'executing' offset 0) t
   left join unnest($4::int[], $5::bigint[]) waited(place, id) on waited.id = g.fetch_id and waited.place = g.place
   where waited.id is null
   except
   select held.id, held.token, held.place from unnest($6::int[], $7::bigint[], $8::timestamptz[]) held(place, id, token)) missing
 order by missing.id)
union all
select null, null, min(fetch_id), place from given group by place
