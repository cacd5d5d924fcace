-- Creates the task of a submit call like submit_plain, if it is the only one: without unnested arrays and aggregates, which
-- cost as much as all inserts.
--   the parameters of submit_plain, each with one element
with fresh as (
  insert into requests (id, task_ids) values (($1::uuid[])[1], array[nextval('tasks_id_seq')])
  on conflict do nothing
  returning task_ids[1] as id, clock_timestamp() as at),
 timed as materialized (
  select id, at, greatest(($4::timestamptz[])[1], at) + interval '1ms' * ($5::bigint[])[1] as run_at from fresh),
 made as (
  insert into tasks (id, route_id, {strings}, {numbers}, run_at, created, last_updated) overriding system value
  select id, ($3::int[])[1], {strings from $6 at 1}, {numbers from $10 at 1}, run_at, at, at
  from timed),
 counted as (
  insert into count_changes (route_id, due, live) select ($3::int[])[1], delayed_to(run_at, at), 1 from timed)
select ($2::int[])[1] as request, 1::bigint as n, id, at as last_updated, run_at from timed
