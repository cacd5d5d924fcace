-- Returns which priorities have tasks, from the highest down, and when the first task of each is due: a skip scan of
-- the index tasks_ready, one probe per priority.
--   $1 routes, $2 for each: only priorities below this one, $3 the maximum number for each
with recursive stream as (
  select r.route_id, 1 as n, first.*
  from unnest($1::int[], $2::int[]) r(route_id, below)
  cross join lateral (
    select t.priority, t.run_at from tasks t where t.lane is null and t.route_id = r.route_id and t.priority < r.below
    order by t.priority desc, t.run_at limit 1) first
  union all
  select s.route_id, s.n + 1, first.*
  from stream s
  cross join lateral (
    select t.priority, t.run_at from tasks t where t.lane is null and t.route_id = s.route_id and t.priority < s.priority
    order by t.priority desc, t.run_at limit 1) first
  where s.n < $3)
select route_id, priority, run_at from stream
