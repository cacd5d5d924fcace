-- The next candidates of many streams (route and priority), each after a cursor of its own, in the order they are due, with the
-- length of their details, so that answers can be bounded; then, with id 0, the time at which the stream's first task that is not
-- due yet will be; and, if only one shard of the ids is wanted, with its id negative, the first task of another that is due and can be sent.
-- A clock that was set back hides nothing: what was written while it was ahead goes by the manager's estimate of the time, which
-- does not follow a clock that is set back, and what was due from its beginning is due; all else goes by the clock as it is.
--   one element a stream, whose place is the last column: $1 routes, $2 priorities, $3 and $4 the cursors (run_at, id), $5 the manager's estimates, $6 how many
--   candidates at most, $7 how many shards, $8 which of them, from 0, $9 how long the details of that first task
--   of another shard may be
select t.id, t.last_updated, t.run_at, t.bytes, u.slot::int
from unnest($1::int[], $2::int[], $3::timestamptz[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::int[], $8::int[], $9::bigint[])
  with ordinality u(route_id, priority, after_run_at, after_id, estimate, most, shards, shard, other_bytes, slot)
cross join lateral (
  (select id, last_updated, run_at, octet_length(details) as bytes
   from tasks
   where lane is null and route_id = u.route_id and priority = u.priority and (run_at, id + 0) > (u.after_run_at, u.after_id)
     and run_at <= greatest(statement_timestamp(), u.estimate)
     and (run_at <= statement_timestamp() + interval '100ms' or run_at <= last_updated or last_updated > statement_timestamp())
     and status in ('queued', 'failed') and cancel_requested_at is null
     and (u.shards = 1 or id % u.shards = u.shard)
   order by priority desc, run_at, id + 0 limit u.most)
  union all
  (select -id, last_updated, run_at, octet_length(details)
   from tasks
   where u.shards > 1 and lane is null and route_id = u.route_id and priority = u.priority
     and (run_at, id + 0) > (u.after_run_at, u.after_id)
     and run_at <= greatest(statement_timestamp(), u.estimate)
     and (run_at <= statement_timestamp() + interval '100ms' or run_at <= last_updated or last_updated > statement_timestamp())
     and status in ('queued', 'failed') and cancel_requested_at is null
     and id % u.shards <> u.shard and octet_length(details) <= u.other_bytes
   order by priority desc, run_at, id + 0 limit 1)
  union all
  (select 0, last_updated,
     case when last_updated > statement_timestamp() then statement_timestamp() + (run_at - u.estimate) else run_at end as due, 0
   from tasks
   where lane is null and route_id = u.route_id and priority = u.priority
     and run_at > statement_timestamp() and run_at > last_updated
     and not (run_at <= u.estimate and (run_at <= statement_timestamp() + interval '100ms' or last_updated > statement_timestamp()))
     and run_at < 'infinity' and status in ('queued', 'failed') and cancel_requested_at is null
   order by priority desc, run_at, id + 0 limit 1)
  offset 0) t
