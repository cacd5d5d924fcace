-- Lists workers by id, and pull clients that have tasks: as many as fit into an answer, but at least one. Up to
-- $6 incarnations are checked; the last column is the id above which there may be more (0: there are none), in one row
-- without a worker if none was found. `all`: also those that are gone, and pull clients without tasks.
-- takes ListWorkersRequest: all, @lease_ms, queue?, after, limit, @max_scanned, @max_bytes, batch_id?
-- gives ListWorkersResponse.workers: incarnation, name, host, pid, version, concurrency, queues, types, registered_us, heartbeat_us, state,
--   holding, mode, mode_since_us, completed, failed, manual, uptime_ms, queue_completed, queue_failed, batch_completed,
--   batch_failed, owner, .next_after
with checked as materialized (
  (select * from workers where $1::boolean and id > $4 order by id limit case when $3::text is null then $5::bigint else $6::bigint end)
  union all
  (select * from workers where not $1::boolean and gone_at is null and registered is not null and id > $4 order by id limit $6)),
 found as materialized (
  select w.*, sum(500 + octet_length(w.name) + octet_length(w.host) + octet_length(w.version) + octet_length(w.actor)
    + octet_length(array_to_string(w.queues, 'xx')) + octet_length(array_to_string(w.types, 'xx'))) over (order by w.id) as bytes
  from (
    select * from checked w
    where ($1::boolean or not w.lost and (not w.manual
        or exists (select from assignments a where a.worker_id = w.id and a.closed_at is null)))
      and ($3::text is null or w.queues = '{}' or $3 = any(w.queues))
    order by w.id limit $5) w),
 fitting as materialized (
  select * from found where bytes <= $7::bigint or id = (select min(id) from found)),
 -- The journal is read once: if most of it is of one worker, PostgreSQL would read all of it for each.
 held as materialized (
  select a.worker_id, sum(a.open)::bigint as open from assignments a
  where a.closed_at is null and a.worker_id = any(array(select f.id from fitting f)) group by 1)
select w.id, w.name, w.host, w.pid, w.version, w.concurrency, w.queues, w.types, w.registered, w.hb_at,
  case when w.lost then 'gone'
    when not w.manual and w.hb_at < clock_timestamp() - interval '1ms' * $2::bigint then 'late' else 'alive' end as state,
  coalesce(h.open, 0) as holding, coalesce(l.event, w.mode) as mode, coalesce(l.at, w.mode_since) as mode_since, w.completed, w.failed, w.manual,
  (1000 * extract(epoch from case when w.lost then greatest(w.hb_at, w.registered) else clock_timestamp() end - w.registered))::bigint
    as uptime_ms, c.queue_completed, c.queue_failed, c.batch_completed, c.batch_failed, w.actor as owner, n.next_after
from (
  select case when (select count(*) from fitting) < (select count(*) from found) or (select count(*) from found) = $5
      then (select max(id) from fitting)
    when (select count(*) from checked) >= $6 then (select max(id) from checked) else 0 end as next_after) n
left join fitting w on true
left join held h on h.worker_id = w.id
left join lateral (
  select (sum(c.completed) filter (where c.queue = $3))::bigint as queue_completed,
    (sum(c.failed) filter (where c.queue = $3))::bigint as queue_failed,
    (sum(c.completed) filter (where c.batch_id = $8::bigint))::bigint as batch_completed,
    (sum(c.failed) filter (where c.batch_id = $8::bigint))::bigint as batch_failed
  from worker_counts c where c.worker_id = w.id and (c.queue = $3 or c.batch_id = $8)) c on true
left join lateral (
  select e.event, e.at from worker_events e
  where e.worker_id = w.id and e.event in ('left', 'lost') and e.at between w.gone_at and w.gone_at + interval '1 s' limit 1) l on true
order by w.id
