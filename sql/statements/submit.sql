-- Creates the tasks of many submit calls at once. A call whose request id is known already creates nothing and has no
-- row in the answer; a task whose key is taken is not created and has a null id.
--   the parameters of submit_plain, and one element per task: $15 the key's lifetime in ms or null for the queue's,
--   $16 retry policy or null, $17 version or null, $18 batch or null, whose row is locked, $19 whether it is blocked
--   until that begins, $20 pipeline or null, $21 its first stage, $22 the task whose handler submits it, or null; from
--   $23 texts of the TaskSpec, each or null
with given as materialized (
  select u.*, nextval('tasks_id_seq') as id
  from unnest($2::int[], $3::int[], $4::timestamptz[], $5::bigint[], {strings from $6}, {numbers from $10},
      $15::bigint[], $16::text[], $17::bigint[], $18::bigint[], $19::boolean[], $20::bigint[], $21::text[], $22::bigint[],
      {submitted from $23}) with ordinality
    u(request, route_id, run_at, delay_ms, {strings}, {numbers},
      keep_ms, retry_policy, version, batch_id, blocked, pipeline_id, stage, parent_id, {submitted}, n)),
 moment as materialized (select clock_timestamp() as at),
 accepted as (
  insert into requests (id, task_ids)
  select ($1::uuid[])[request], array_agg(id order by n) from given group by request order by 1
  on conflict do nothing
  returning id),
 fresh as materialized (
  select g.*, m.at, greatest(g.run_at, m.at) + interval '1ms' * g.delay_ms as due
  from given g join accepted a on a.id = ($1::uuid[])[g.request] cross join moment m),
 taken as (
  insert into keys (queue, key, task_id, keep_ms, expires_at, version)
  select distinct on (queue, key) queue, key, id, lifetime, case when version is not null
      then greatest(at + interval '1 year', at + interval '1ms' * lifetime) else at + interval '1ms' * lifetime end, version
  from (select f.*, coalesce(f.keep_ms, (select nullif(q.key_ttl_ms, 0) from queues q where q.name = f.queue)) as lifetime
    from fresh f where key is not null) k
  order by queue, key, n
  on conflict do nothing
  returning task_id),
 made as (
  insert into tasks (id, route_id, {strings}, {numbers}, run_at, blocked_run_at, created, last_updated,
    retry_policy, version, batch_id, pipeline_id, stage, step, parent_id, {submitted}) overriding system value
  select f.id, f.route_id, f.{strings}, f.{numbers}, case when f.blocked then 'infinity' else due end,
    case when f.blocked then due end, f.at, f.at, f.retry_policy::jsonb, f.version, f.batch_id, f.pipeline_id, f.stage,
    case when f.pipeline_id is not null then 1 end, f.parent_id, f.{submitted}
  from fresh f left join taken k on k.task_id = f.id
  where f.key is null or k.task_id is not null
  returning id, last_updated, run_at, batch_id, route_id),
 counted as (
  insert into count_changes (route_id, due, live)
  select route_id, delayed_to(run_at, last_updated), count(*) from made group by 1, 2),
 batched as (
  update batches b set submitted = b.submitted + n.n, pending = b.pending + n.n
  from (select batch_id, count(*) as n from made where batch_id is not null group by 1 order by 1) n
  where b.id = n.batch_id)
select f.request, f.n, m.id, m.last_updated, m.run_at from fresh f left join made m on m.id = f.id order by f.n
