-- Lists schedules by name, without their tasks' details: as many as fit into $3 bytes, but at least one, and whether
-- there are more. $1 only names after this one, $2 the maximum number.
with found as materialized (select * from schedules_shown where name > $1::text order by name limit $2::bigint + 1),
 fitting as materialized (
  select * from (
    select *, (spec - 'details')::text as plain, row_number() over w as place,
      sum(1000 + octet_length((spec - 'details')::text)) over w as bytes
    from found window w as (order by name)) x
  where place = 1 or place <= $2 and coalesce(bytes, 0) <= $3::bigint)
select name, cron, zone, every_ms, start_at, plain, queue_action, action_queue, catch_up, max_catch_up, concurrency_policy,
  paused, next_at, last_scheduled, last_at, last_outcome, last_task_id, waits_for, source, created, updated, null::timestamptz[],
  (select count(*) from fitting) < (select count(*) from found) as more
from fitting
order by name
