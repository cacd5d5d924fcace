-- Claims candidates like claim, when some may be of queues with a limit. It locks the candidates and then the limits,
-- and claims those for which there are permits (invariant I9), of each queue the highest priorities first. A candidate
-- that another session has locked is not waited for. The answer also has what was not claimed and still waits: `kind`
-- is 0 for what was claimed, 1 if the limit does not let it, 2 if another session has it locked.
--   $1 to $6 as for claim; $7 whether it does not wait for limits that another session has locked either, and gives
--   none of their permits
with tried as materialized (
  select c.*,
    (array(select nextval('assignments_id_seq') from unnest($4::bigint[])))[slot] as assignment_id,
    (array(select (select case when manual then 0 else lease_ms end from workers w where w.id = x.id and not lost)
           from unnest($4::bigint[]) with ordinality x(id, n) order by n))[slot] as lease_ms
  from unnest($1::bigint[], $2::timestamptz[], $3::int[]) c(id, version, slot) offset 0),
 waits as materialized ( -- those that have not changed; `free`: no other session has it locked
  select c.id, c.slot, c.assignment_id, c.lease_ms, t.queue, t.priority, t.run_at, l.free
  from tried c
  cross join lateral (
    select queue, priority, run_at from tasks t
    where t.id = c.id and t.last_updated = c.version and t.status in ('queued', 'failed') and t.cancel_requested_at is null
      and not t.route_id = any(array(select r.id from queues q join routes r on r.queue = q.name
        where (q.state <> 'running' or q.max_running is not null or q.waiting_until is not null)
          and (q.state <> 'running' or q.waiting_until > statement_timestamp())))
    offset 0) t
  left join lateral (
    select true as free from tasks t
    where t.id = c.id and t.last_updated = c.version and t.status in ('queued', 'failed') and t.cancel_requested_at is null
    offset 0 for no key update skip locked) l on true
  where c.lease_ms is not null),
 limited as materialized (select queue from limits where queue = any(array(select distinct queue from waits where free))),
 permits as materialized (
  select * from (
    select queue, id, greatest(maximum - taken, 0) as room from limits
    where not $7::boolean and queue = any(array(select queue from limited)) order by id for no key update) waited
  union all
  select * from (
    select queue, id, greatest(maximum - taken, 0) as room from limits
    where $7::boolean and queue = any(array(select queue from limited)) order by id for no key update skip locked) skipped),
 ranked as materialized (
  select w.*, p.id as limit_id, case
      when w.free is null then 2
      when w.queue <> all(array(select queue from limited)) then 0
      when row_number() over (partition by w.queue, w.free order by w.priority desc, w.run_at, w.id) <= p.room then 0
      else 1 end as kind
  from waits w left join permits p on p.queue = w.queue),
 won as (
  update tasks t set status = 'executing', attempt = attempt + 1,
    worker_id = ($4::bigint[])[u.slot], assignment_id = u.assignment_id,
    expiry = clock_timestamp() + interval '1ms' * (t.timeout_ms + greatest($6::bigint, u.lease_ms)),
    last_updated = greatest(clock_timestamp(), t.last_updated + interval '1us'),
    permits = case when u.limit_id is not null then array[u.limit_id] end
  from (select id, slot, limit_id, assignment_id, lease_ms from ranked where kind = 0 offset 0) u
  where t.id between u.id and u.id
  returning t.id, t.last_updated, t.assignment_id, t.expiry, t.timeout_ms, t.route_id, u.slot, t.attempt, t.max_attempts,
    t.retrying, t.permits, t.batch_id, t.details, t.{assigned}),
 taken as (
  update limits l set taken = l.taken + p.n
  from (select permits[1] as id, count(*)::int as n from won where permits is not null group by 1 order by 1) p
  where l.id = any(array[p.id])),
 journal as (
  insert into assignments (id, worker_id, fetch_id, next_expiry, task_ids, open, plain_route) overriding system value
  select assignment_id, ($4::bigint[])[slot], ($5::bigint[])[slot], min(expiry), array_agg(id), count(*),
    case when min(route_id) = max(route_id) and count(retrying) = 0 then min(route_id) end
  from won group by assignment_id, slot)
select id, last_updated, details, attempt, max_attempts, timeout_ms, route_id, assignment_id, batch_id, slot, 0 as kind, {assigned}
from won
union all
select r.id, null, null, null, null, null, null, null, null, r.slot, r.kind, t.{assigned}
from ranked r left join tasks t on false
where r.kind > 0
