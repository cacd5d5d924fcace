-- What Fetches were given and still hold, and whether their workers live: asked when a Fetch arrives again, when its
-- incarnation is new to this manager, or when its claim's commit is unknown. At least one row for each Fetch, in their order;
-- "lost" is null for an incarnation that there is not, and a lost one is told nothing more.
-- The fence makes this statement a commit of its own where it tells of a task, so that what it tells of is on the
-- synchronous standbys, if there are any, before it is told.
-- With queue and type, because a manager that has just started may not know the route yet.
-- Another manager, whose messages are longer, may have claimed them: of each Fetch as many have their details as fit into one of ours,
-- the shortest first; of the others these are null. What fits is reckoned as for a claim (deal.c): a manager can give again
-- whatever it has given.
--   one element a Fetch: $1 incarnations, $2 Fetch ids; $3 how many bytes details may have, $4 and an answer with several tasks, $5 what each
--   costs in it beside its texts
with fence as materialized (select pg_logical_emit_message(true, 'reeve', 'fence') as lsn)
select t.id, t.last_updated, case when t.fits then t.details end, t.attempt, t.max_attempts, t.timeout_ms, t.key, t.route_id,
  t.assignment_id,
  extract(epoch from t.expiry - clock_timestamp())::float8 * 1000 as expires_in_ms, t.queue, t.type,
  t.stage, f.place::int as place, w.lost, case when t.id is not null then (select lsn from fence) end,
  octet_length(t.details)
from unnest($1::bigint[], $2::bigint[]) with ordinality f(worker_id, fetch_id, place)
left join lateral (select lost from workers where id = f.worker_id offset 0) w on true
left join lateral (
  select t.*, octet_length(t.details) <= $3::bigint and (row_number() over w = 1 or $4::bigint >=
    sum($5::bigint + octet_length(t.queue) + octet_length(t.type) + octet_length(t.details)) over w) as fits
  from (
    select id, task_ids from assignments
    where not w.lost and worker_id = f.worker_id and closed_at is null and fetch_id = f.fetch_id offset 0) a
  cross join unnest(a.task_ids) x(id)
  cross join lateral (
    select * from tasks t where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' offset 0) t
  window w as (order by octet_length(t.details), t.id)) t on true
order by f.place, t.id
