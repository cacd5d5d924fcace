-- Creates the task of a submit call like submit_plain, if it is the only one: without unnested arrays and aggregates, which
-- cost as much as all inserts.
--   the parameters of submit_plain, each with one element
with fresh as (
  insert into requests (id, task_ids) values (($1::uuid[])[1], array[nextval('tasks_id_seq')])
  on conflict do nothing
  returning task_ids[1] as id, clock_timestamp() as at),
 timed as materialized (
  select id, at, greatest(($8::timestamptz[])[1], at) + interval '1ms' * ($9::bigint[])[1] as run_at from fresh),
 made as (
  insert into tasks (id, route_id, priority, queue, type, details, run_at, max_attempts, timeout_ms, retry_base_ms,
    retry_max_ms, source, created, last_updated) overriding system value
  select id, ($3::int[])[1], ($7::int[])[1], ($4::text[])[1], ($5::text[])[1], ($6::text[])[1], run_at,
    ($10::int[])[1], ($11::bigint[])[1], ($12::bigint[])[1], ($13::bigint[])[1], ($14::text[])[1], at, at
  from timed),
 counted as (
  insert into count_changes (route_id, due, live) select ($3::int[])[1], delayed_to(run_at, at), 1 from timed)
select ($2::int[])[1] as request, 1::bigint as n, id, at as last_updated, run_at from timed
