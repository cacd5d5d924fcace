-- Which priorities have tasks, from the highest down: a skip scan of the ready index, one probe a priority.
--   $1 routes, $2 only priorities below this one, $3 how many for each route at most
with recursive stream as (
  select r.route_id, 1 as n,
    (select t.priority from tasks t where t.lane is null and t.route_id = r.route_id and t.priority < $2
     order by t.priority desc limit 1) as priority
  from unnest($1::int[]) r(route_id)
  union all
  select s.route_id, s.n + 1,
    (select t.priority from tasks t where t.lane is null and t.route_id = s.route_id and t.priority < s.priority
     order by t.priority desc limit 1)
  from stream s where s.priority is not null and s.n < $3)
select route_id, priority from stream where priority is not null
