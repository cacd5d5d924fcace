-- Releases tasks that were blocked until their batch had begun, some at a time, and notifies the managers. The batch's
-- row is not locked: its phase advances only when there are none left. $1 the batch, $2 the maximum number.
with blocked as materialized (
  select id, blocked_run_at from tasks where batch_id = $1 and blocked_run_at is not null
  order by id limit $2 for no key update),
 released as (
  update tasks t set run_at = greatest(h.blocked_run_at, clock_timestamp()), blocked_run_at = null,
    last_updated = greatest(clock_timestamp(), t.last_updated + interval '1us')
  from blocked h where t.id = any(array[h.id])
  returning t.route_id, t.priority, t.run_at, t.last_updated),
 counted as (
  insert into count_changes (route_id, due, live)
  select route_id, v.due, sum(v.live)
  from released cross join lateral (values ('infinity', -1), (delayed_to(run_at, last_updated), 1)) v(due, live)
  group by 1, 2 having sum(v.live) <> 0),
 notified as materialized (
  select pg_notify('reeve_notify', format('0 %s %s %s', route_id, priority, (extract(epoch from min(run_at)) * 1000000)::bigint))
  from released group by route_id, priority)
select (select count(*) from released), (select count(*) from notified)
