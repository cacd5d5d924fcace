-- Returns the live tasks by route, of one queue or (null) of all. `queued` are due; the other three columns are as in
-- `reeve queue list`. Exact in every snapshot; the border between queued and delayed is exact to the second. A claim goes
-- by the manager's estimate of the time: a task that it has claimed early does not count as delayed either.
create or replace function live_totals(of_queue text)
returns table (route_id int, queued bigint, delayed bigint, executing bigint, failed bigint) language sql stable
set search_path = reeve, pg_temp as $$
  with running as (
    select a.plain_route as route_id, sum(a.open) as executing, 0 as retrying
    from assignments a where a.closed_at is null and a.plain_route is not null group by 1
    union all
    select t.route_id, count(*), count(t.retrying)
    from (select a.id, a.task_ids from assignments a where a.closed_at is null and a.plain_route is null offset 0) a
    cross join lateral unnest(a.task_ids) x(id)
    cross join lateral (
      select t.route_id, t.retrying from tasks t where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' offset 0) t
    group by 1),
   parts as (
    select c.route_id, c.live, c.delayed, 0 as executing, c.retrying as failed from live_counts c
    union all
    select c.route_id, c.live, case when c.due > statement_timestamp() then c.live else 0 end, 0, c.retrying
    from count_changes c where c.live <> 0 or c.retrying <> 0
    union all
    select d.route_id, 0, -d.count, 0, 0 from live_due d where d.due <= statement_timestamp()
    union all
    select r.route_id, 0, 0, r.executing, -r.retrying from running r),
   sums as (
    select p.route_id, sum(p.live) - sum(p.executing) - sum(p.failed) as waiting, sum(p.delayed) as delayed,
      sum(p.executing) as executing, sum(p.failed) as failed
    from parts p
    where of_queue is null and p.route_id <> 0 or p.route_id in (select r.id from routes r where r.queue = of_queue)
    group by 1)
  select s.route_id, (s.waiting - d.delayed)::bigint, d.delayed::bigint, s.executing::bigint, s.failed::bigint
  from sums s cross join lateral (select greatest(0, least(s.delayed, s.waiting)) as delayed) d
$$;
