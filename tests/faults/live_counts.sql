-- Lists where live_totals, or the counts of delayed tasks by the second in which they are due, differ from a full count
-- of the tasks. If a clock that was ahead has been set back, tasks due before the latest time ever written may already
-- count as due.
with known as (select greatest(statement_timestamp(), (select max(last_updated) from reeve.tasks),
  (select max(last_updated) from reeve.task_history), (select max(at) from reeve.worker_events)) as latest),
totals as materialized (select * from reeve.live_totals(null)),
counted as (
  select x.route_id, x.status, '' as due, x.count from totals c cross join lateral (values
    (c.route_id, 'waiting', c.queued + c.delayed), (c.route_id, 'executing', c.executing), (c.route_id, 'failed', c.failed))
    x(route_id, status, count)
  union all
  select route_id, 'delayed', due::text, sum(count)
  from (select * from reeve.live_due union all select due, route_id, live from reeve.count_changes) d
  where due > (select latest from known) group by 1, 3
  union all
  select route_id, 'delayed in all', '', delayed - (select coalesce(sum(count), 0) from reeve.live_due d where d.route_id = c.route_id)
  from reeve.live_counts c
  union all
  select c.route_id, 'fewer than 0 ' || x.status, '', x.count
  from totals c cross join lateral (values ('queued', c.queued), ('delayed', c.delayed), ('failed', c.failed)) x(status, count)
  where x.count < 0),
found as (
  select route_id, case status when 'queued' then 'waiting' else status end as status, '' as due, count(*)
  from reeve.tasks where route_id <> 0 group by 1, 2
  union all
  select route_id, 'delayed', date_trunc('second', run_at)::text, count(*) from reeve.tasks
  where (status = 'queued' or status = 'executing' and retrying is null) and run_at > last_updated -- or claimed early
    and date_trunc('second', run_at) > (select latest from known) group by 1, 3)
select route_id as route, status, due, coalesce(c.count, 0) as counted, coalesce(f.count, 0) as found
from counted c full join found f using (route_id, status, due)
where coalesce(c.count, 0) <> coalesce(f.count, 0)
