-- The next candidates of one stream (route and priority) after a cursor, in the order they are due, with the length of their
-- details, so that answers can be bounded; then, with id 0, the time at which the first task that is not due yet will be;
-- and, if only one slice of the ids is wanted, with its id negative, the first task of another that is due.
-- The manager's reckoning of the time never goes back. A clock that did hides nothing: what was put where it is by the
-- clock of before goes by the reckoning, and what was due from its beginning is due; all else goes by the clock as it is,
-- which the reckoning may be ahead of by a little.
--   $1 route, $2 priority, $3 and $4 the cursor (run_at, id), $5 the manager's reckoning, $6 how many, $7 how many slices,
--   $8 which of them, from 0
(select id, last_updated, run_at, octet_length(details) as bytes
 from tasks
 where lane is null and route_id = $1 and priority = $2 and (run_at, id + 0) > ($3, $4)
   and run_at <= greatest(statement_timestamp(), $5)
   and (run_at <= statement_timestamp() + interval '100ms' or run_at <= last_updated or last_updated > statement_timestamp())
   and status in ('queued', 'failed') and cancel_requested_at is null
   and ($7::int = 1 or id % $7::int = $8::int)
 order by priority desc, run_at, id + 0 limit $6)
union all
(select -id, last_updated, run_at, octet_length(details)
 from tasks
 where $7::int > 1 and lane is null and route_id = $1 and priority = $2 and (run_at, id + 0) > ($3, $4)
   and run_at <= greatest(statement_timestamp(), $5)
   and (run_at <= statement_timestamp() + interval '100ms' or run_at <= last_updated or last_updated > statement_timestamp())
   and status in ('queued', 'failed') and cancel_requested_at is null
   and id % $7::int <> $8::int
 order by priority desc, run_at, id + 0 limit 1)
union all
(select 0, last_updated,
   case when last_updated > statement_timestamp() then statement_timestamp() + (run_at - $5) else run_at end as due, 0
 from tasks
 where lane is null and route_id = $1 and priority = $2 and run_at > statement_timestamp() and run_at > last_updated
   and not (run_at <= $5 and (run_at <= statement_timestamp() + interval '100ms' or last_updated > statement_timestamp()))
   and run_at < 'infinity' and status in ('queued', 'failed') and cancel_requested_at is null
 order by priority desc, run_at, id + 0 limit 1)
