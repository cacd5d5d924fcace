-- Estimates how long the pending tasks of a batch still take, in ms; -1: no attempt has ended yet, or the queue's limit is 0. It
-- is the longer of two times: that of all expected attempts, each with the queue's resting period, shared by the slots of the
-- workers that serve the queue, up to its limit; and that of the task that takes longest, with its delay and the retry delays that are expected. The attempts
-- so far show how long one takes and how many fail. Up to 50 pending and 50 ended tasks, with their last attempts, and up
-- to 200 workers are read.
create or replace function batch_remaining_ms(b batches) returns bigint
language sql stable set enable_seqscan = off set search_path = reeve, pg_temp as $$
  with live as materialized (
    select t.id, t.status, t.run_at, t.blocked_run_at, t.max_attempts, t.retry_policy, t.retry_base_ms, t.retry_max_ms,
      t.attempt + (t.status <> 'executing')::int as n, greatest(t.max_attempts - t.attempt + (t.status = 'executing')::int, 1) as attempts
    from tasks t where t.batch_id = b.id and t.id is distinct from b.entry_id and t.id is distinct from b.exit_id
    order by t.id limit 50),
   ended as materialized (
    select h.task_id as id, h.status, h.token, h.last_updated from task_history h
    where h.batch_id = b.id and h.task_id is distinct from b.entry_id and h.task_id is distinct from b.exit_id
    order by h.task_id desc limit 50),
   seen as materialized (
    select avg(extract(epoch from x.took) * 1000)::float8 as ms, avg((not x.well)::int)::float8 as failing
    from (
      select a.outcome = 'completed' as well, a.last_updated - a.token as took
      from (select id from live union all select id from ended) t
      cross join lateral (
        select * from task_attempts a where a.task_id = t.id and a.outcome <> 'requeued' order by a.token desc limit 10) a
      union all
      select e.status = 'completed', e.last_updated - e.token from ended e where e.token is not null) x),
   slots as materialized (
    select greatest(least(coalesce(sum(w.concurrency), 1), (select q.max_running from queues q where q.name = b.queue)), 1) as n
    from (
      select w.concurrency from workers w
      where w.gone_at is null and not w.manual and not w.lost and w.mode = 'running' and (w.queues = '{}' or b.queue = any(w.queues))
      limit 200) w),
   paths as materialized (
    select greatest(case when l.blocked_run_at is null then extract(epoch from l.run_at - clock_timestamp()) * 1000 else 0 end, 0)
        + s.ms + coalesce(later.ms, 0) as ms, 1 + coalesce(later.attempts, 0) as attempts
    from live l cross join seen s
    cross join lateral (
      select sum(power(s.failing, i)) as attempts, sum(power(s.failing, i) * (s.ms + (1 - retry_jitter(l.retry_policy) / 2)
        * retry_delay_ms(l.retry_policy, l.retry_base_ms, l.retry_max_ms, l.n + i - 1))) as ms
      from generate_series(1, least(l.attempts - 1, 30)) i
      where s.failing > 0) later)
  select case when s.ms is null or exists (select from queues q where q.name = b.queue and q.max_running = 0) then -1
    else coalesce(greatest(max(p.ms), (sum(p.attempts) * b.pending / count(*) * (s.ms + r.ms) - r.ms) / n.n), 0) end::bigint
  from seen s cross join slots n
  cross join lateral (select coalesce((select q.resting_ms from queues q where q.name = b.queue), 0) as ms) r
  left join paths p on true
  group by s.ms, n.n, r.ms
$$;
