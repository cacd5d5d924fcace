-- Creates the tasks of many submit calls at once like submit, if none of them has a key, a retry policy, a version, a
-- batch or a pipeline, so that all are created. A call whose request id is known already creates nothing and has no row
-- in the answer. Numbers are read from their arrays by place, which costs less than to unnest each; strings cannot be.
-- In `fresh`, the columns that are counted come first.
--   $1 the calls' request ids; then one element per task: $2 its call's place in $1, $3 route, $4 queue, $5 type,
--   $6 details, $7 priority, $8 run_at, or null for now, $9 delay in ms, $10 max_attempts, $11 timeout_ms,
--   $12 retry_base_ms, $13 retry_max_ms, $14 source
with given as materialized (
  select u.*, nextval('tasks_id_seq') as id
  from unnest($2::int[], $4::text[], $5::text[], $6::text[], $8::timestamptz[], $14::text[]) with ordinality
    u(request, queue, type, details, run_at, source, n)),
 moment as materialized (select clock_timestamp() as at),
 accepted as (
  insert into requests (id, task_ids)
  select ($1::uuid[])[request], array_agg(id order by n) from given group by request order by 1
  on conflict do nothing
  returning id),
 fresh as materialized (
  select ($3::int[])[g.n] as route_id, m.at, greatest(g.run_at, m.at) + interval '1ms' * ($9::bigint[])[g.n] as run_at,
    g.request, g.n, g.id, g.queue, g.type, g.details, g.source
  from given g join accepted a on a.id = ($1::uuid[])[g.request] cross join moment m),
 made as (
  insert into tasks (id, route_id, priority, queue, type, details, run_at, max_attempts, timeout_ms, retry_base_ms,
    retry_max_ms, source, created, last_updated) overriding system value
  select id, route_id, ($7::int[])[n], queue, type, details, run_at, ($10::int[])[n], ($11::bigint[])[n],
    ($12::bigint[])[n], ($13::bigint[])[n], source, at, at
  from fresh),
 counted as (
  insert into count_changes (route_id, due, live)
  select route_id, delayed_to(run_at, at), count(*) from fresh group by 1, 2)
select request, n, id, at as last_updated, run_at from fresh order by n
