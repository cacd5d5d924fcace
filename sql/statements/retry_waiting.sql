-- Makes waiting tasks due now. The rows are locked whatever their status, and chosen by what that returns; otherwise
-- one that is just failing would be missed. $1 ids, $2 actor.
with locked as materialized (
  select id, status, cancel_requested_at, run_at, last_updated from tasks where id = any($1::bigint[]) order by id for no key update),
 requeued as (
  update tasks t set run_at = greatest(clock_timestamp(), t.last_updated + interval '1us'),
    last_updated = greatest(clock_timestamp(), t.last_updated + interval '1us')
  from locked l
  where l.status in ('queued', 'failed') and l.cancel_requested_at is null and t.blocked_run_at is null and t.id = any(array[l.id])
  returning t.id, t.last_updated, t.run_at, t.route_id, t.priority),
 counted as (
  insert into count_changes (route_id, due, live)
  select h.route_id, v.due, sum(v.live)
  from requeued h join locked l on l.id = h.id
  cross join lateral (values (delayed_to(l.run_at, l.last_updated), -1), (null, 1)) v(due, live)
  where l.status = 'queued' group by 1, 2 having sum(v.live) <> 0),
 events as (
  insert into task_events (task_id, version, event, actor) select id, last_updated, 'retried', $2 from requeued)
select id, last_updated, run_at, route_id, priority from requeued
