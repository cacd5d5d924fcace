-- Returns what Fetches were assigned and still have, and whether their workers live. It is used when a Fetch arrives
-- again, when its incarnation is new to this manager, or when the outcome of its claim's commit is unknown. At least
-- one row for each Fetch, in their order; "lost" is null for an incarnation that does not exist, and a lost one gets
-- nothing else.
-- If it returns a task, the fence makes this statement a commit of its own, so that the synchronous standbys, if there
-- are any, have the assignment before the worker gets it.
-- It returns queue and type, because a manager that has just started may not know the route yet.
-- Another manager with a larger message size may have claimed the tasks: of each Fetch as many have their details as
-- fit into one message of this manager, the shortest first; those of the others are null. What fits is computed as for
-- a claim (match.c), so that a manager can send again whatever it has sent.
-- The details of all Fetches together are limited, too, because their rows are in memory at once. Those of Fetches
-- beyond that limit are null and "later" is true; the first Fetch with tasks always gets them.
--   one element per Fetch: $1 incarnations, $2 Fetch ids; $3 the maximum bytes of details, $4 and of an answer with
--   several tasks, $5 the bytes that each takes in it in addition to its strings, $6 the maximum bytes of all details
with fence as materialized (select pg_logical_emit_message(true, 'reeve', 'fence') as lsn)
select id, last_updated, case when fits and not later then details end, attempt, max_attempts, timeout_ms, route_id,
  assignment_id, batch_id, extract(epoch from expiry - clock_timestamp())::float8 * 1000 as expires_in_ms, queue, type,
  place::int, lost, case when id is not null then (select lsn from fence) end, octet_length(details), later, {assigned}
from (
  select f.place, w.lost, t.*, coalesce(sum(octet_length(t.details)) filter (where t.fits) over earlier > 0 and t.id is not null and
    sum(octet_length(t.details)) filter (where t.fits) over so_far > $6::bigint, false) as later
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
  window so_far as (order by f.place),
    earlier as (order by f.place range between unbounded preceding and 1 preceding)) all_rows
order by place, id
