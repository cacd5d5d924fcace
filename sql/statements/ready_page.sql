-- Returns the next candidates of many streams (route and priority), each after its own cursor, in the order in which
-- they are due, with the length of their details, so that answers can be limited. Then, with id 0, the time when the
-- stream's first task that is not due yet will be due; and, if only one shard of the ids is requested, with its id
-- negative, the first due task of another shard that can be sent.
-- A clock that was set back hides nothing. For what was written while it was ahead, the manager's estimate of the time
-- applies, which does not follow a clock that is set back; what was due from its creation is due. For all else the
-- clock applies as it is.
--   one element per stream, whose place is the last column: $1 routes, $2 priorities, $3 and $4 the cursors (run_at,
--   id), $5 the manager's estimates, $6 the maximum number of candidates, $7 how many shards, $8 which of them, from 0,
--   $9 the maximum length of the details of that first task of another shard
select t.id, t.last_updated, t.run_at, t.bytes, u.slot::int
from unnest($1::int[], $2::int[], $3::timestamptz[], $4::bigint[], $5::timestamptz[], $6::int[], $7::int[], $8::int[], $9::bigint[])
  with ordinality u(route_id, priority, after_run_at, after_id, estimate, most, shards, shard, other_bytes, slot)
cross join lateral (
  (select id, last_updated, run_at, octet_length(details) as bytes
   from tasks
   where lane is null and route_id = u.route_id and priority = u.priority and (run_at, id + 0) > (u.after_run_at, u.after_id)
     and run_at <= greatest(statement_timestamp(), u.estimate)
     and (run_at <= statement_timestamp() or run_at <= last_updated or last_updated > statement_timestamp())
     and status in ('queued', 'failed') and cancel_requested_at is null
     and (u.shards = 1 or shard_of(id, u.shards) = u.shard)
   order by priority desc, run_at, id + 0 limit u.most)
  union all
  (select -id, last_updated, run_at, octet_length(details)
   from tasks
   where u.shards > 1 and lane is null and route_id = u.route_id and priority = u.priority
     and (run_at, id + 0) > (u.after_run_at, u.after_id)
     and run_at <= greatest(statement_timestamp(), u.estimate)
     and (run_at <= statement_timestamp() or run_at <= last_updated or last_updated > statement_timestamp())
     and status in ('queued', 'failed') and cancel_requested_at is null
     and shard_of(id, u.shards) <> u.shard and octet_length(details) <= u.other_bytes
   order by priority desc, run_at, id + 0 limit 1)
  union all
  (select 0, last_updated,
     case when last_updated > statement_timestamp() then statement_timestamp() + (run_at - u.estimate) else run_at end as due, 0
   from tasks
   where lane is null and route_id = u.route_id and priority = u.priority
     and run_at > statement_timestamp() and run_at > last_updated
     and not (run_at <= u.estimate and (run_at <= statement_timestamp() or last_updated > statement_timestamp()))
     and run_at < 'infinity' and status in ('queued', 'failed') and cancel_requested_at is null
   order by priority desc, run_at, id + 0 limit 1)
  offset 0) t
