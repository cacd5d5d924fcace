-- Claims candidates for many workers at once, and writes the journal: one row for each Fetch that won something. A
-- candidate that another session changed since it was read does not match its version and is not in the answer, nor is
-- one of a queue that is not running or in its waiting period, nor one of a queue with a limit: claim_limited is for
-- those.
--   one element per candidate, in id order: $1 ids, $2 versions, $3 the place of its Fetch in $4 and $5;
--   $4 the workers' incarnations, $5 the Fetch ids; $6 the expiry grace in ms, which an attempt has after its timeout;
--   its worker's lease if that is longer
-- `id between x and x`: as with `id = any(array[x])`, the planner considers no merge or hash join, and no array is
-- created for each row. Arrays are subselects: an array from a CTE would be unpacked for each row. The assignment ids
-- belong to `u`, whose rows are kept when a row of tasks must be checked again; as a part of the update they would be
-- drawn a second time then.
with won as (
  update tasks t set status = 'executing', attempt = attempt + 1,
    worker_id = ($4::bigint[])[u.slot], assignment_id = u.assignment_id,
    expiry = clock_timestamp() + interval '1ms' * (t.timeout_ms + greatest($6::bigint, u.lease_ms)),
    last_updated = greatest(clock_timestamp(), t.last_updated + interval '1us')
  from (select c.*,
      (array(select nextval('assignments_id_seq') from unnest($4::bigint[])))[slot] as assignment_id,
      (array(select (select case when manual then 0 else lease_ms end from workers w where w.id = x.id and not lost)
             from unnest($4::bigint[]) with ordinality x(id, n) order by n))[slot] as lease_ms
    from unnest($1::bigint[], $2::timestamptz[], $3::int[]) c(id, version, slot) offset 0) u
  where u.lease_ms is not null and t.id between u.id and u.id and t.last_updated = u.version
    and t.status in ('queued', 'failed') and t.cancel_requested_at is null
    and not t.route_id = any(array(select r.id from queues q join routes r on r.queue = q.name
      where (q.state <> 'running' or q.max_running is not null or q.waiting_until is not null)
        and (q.state <> 'running' or q.max_running is not null or q.waiting_until > statement_timestamp())))
  returning t.id, t.last_updated, t.assignment_id, t.expiry, t.timeout_ms, t.route_id, u.slot, t.attempt, t.max_attempts,
    t.retrying, t.batch_id, t.details, t.{assigned}),
 journal as (
  insert into assignments (id, worker_id, fetch_id, next_expiry, task_ids, open, plain_route) overriding system value
  select assignment_id, ($4::bigint[])[slot], ($5::bigint[])[slot], min(expiry), array_agg(id), count(*),
    case when min(route_id) = max(route_id) and count(retrying) = 0 then min(route_id) end
  from won group by assignment_id, slot)
select id, last_updated, details, attempt, max_attempts, timeout_ms, route_id, assignment_id, batch_id, slot, {assigned} from won
