-- Creates the tasks of many submit calls at once like submit, if none of them has a key, a retry policy, a version, a
-- batch or a pipeline, so that all are created. A call whose request id is known already creates nothing and has no row
-- in the answer. Numbers are read from their arrays by place, which costs less than to unnest each; strings cannot be.
-- In `fresh`, the columns that are counted come first.
--   $1 the calls' request ids; then one element per task: $2 its call's place in $1, $3 route, $4 run_at, or
--   null for now, $5 delay in ms, from $6 the lists strings and numbers of its columns
with given as materialized (
  select u.*, nextval('tasks_id_seq') as id
  from unnest($2::int[], $4::timestamptz[], {strings from $6}) with ordinality u(request, run_at, {strings}, n)),
 moment as materialized (select clock_timestamp() as at),
 accepted as (
  insert into requests (id, task_ids)
  select ($1::uuid[])[request], array_agg(id order by n) from given group by request order by 1
  on conflict do nothing
  returning id),
 fresh as materialized (
  select ($3::int[])[g.n] as route_id, m.at, greatest(g.run_at, m.at) + interval '1ms' * ($5::bigint[])[g.n] as run_at,
    g.request, g.n, g.id, g.{strings}
  from given g join accepted a on a.id = ($1::uuid[])[g.request] cross join moment m),
 made as (
  insert into tasks (id, route_id, {strings}, {numbers}, run_at, created, last_updated) overriding system value
  select id, route_id, {strings}, {numbers from $10 at n}, run_at, at, at
  from fresh),
 counted as (
  insert into count_changes (route_id, due, live)
  select route_id, delayed_to(run_at, at), count(*) from fresh group by 1, 2)
select request, n, id, at as last_updated, run_at from fresh order by n
