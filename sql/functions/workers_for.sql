-- Returns which workers accept tasks of these queues and types (pairs: both arrays have the same length): how many are
-- alive, how many of those neither pause nor drain, how many slots these have together, and how many of the slots are
-- busy. No row: no worker accepts the pair. The workers are read once and grouped by what they accept, so that many
-- workers or many pairs do not cost the product of the two. Pull clients do not count: what they will ask for is not
-- known. Without `with_busy` no slot counts as busy. With more than 1,000 workers, up to 50,000 open rows of the
-- journal are read; if there are more rows, some busy slots count as free.
create or replace function workers_for(of_queues text[], of_types text[], with_busy boolean)
returns table (queue text, type text, workers bigint, running bigint, slots bigint, busy bigint)
language sql stable set enable_seqscan = off set enable_nestloop = off as $$
  with wanted as materialized (select distinct u.queue, u.type from unnest(of_queues, of_types) u(queue, type)),
   alive as materialized ( -- for few pairs, only those that accept one
    select w.id, w.queues, w.types, w.mode, w.concurrency
    from workers w
    where w.gone_at is null and not w.manual and not w.lost
      and (cardinality(of_queues) > 10
        or (w.queues = '{}' or w.queues && of_queues) and (w.types = '{}' or w.types && of_types))),
   held as materialized (
    select a.id as worker_id, h.open
    from alive a
    cross join lateral (
      select sum(x.open) as open from assignments x where x.worker_id = a.id and x.closed_at is null offset 0) h
    where with_busy and (select count(*) from alive) <= 1000
    union all
    select x.worker_id, sum(x.open)
    from (select s.worker_id, s.open from assignments s
      where s.closed_at is null and with_busy and (select count(*) from alive) > 1000 limit 50000) x
    group by 1),
   alike as materialized ( -- '' stands for all
    select case w.queues when '{}' then '{""}' else w.queues end as queues,
      case w.types when '{}' then '{""}' else w.types end as types,
      count(*) as workers, count(*) filter (where w.mode = 'running') as running,
      coalesce(sum(w.concurrency) filter (where w.mode = 'running'), 0) as slots,
      coalesce(sum(least(coalesce(h.open, 0), w.concurrency)) filter (where w.mode = 'running'), 0) as busy
    from alive w left join held h on h.worker_id = w.id
    group by 1, 2),
   offers as materialized (
    select q.queue, t.type, sum(a.workers) as workers, sum(a.running) as running, sum(a.slots) as slots, sum(a.busy) as busy
    from alike a
    cross join lateral (
      select distinct x.queue from unnest(a.queues) x(queue) where x.queue = '' or x.queue in (select n.queue from wanted n)) q
    cross join lateral (
      select distinct x.type from unnest(a.types) x(type) where x.type = '' or x.type in (select n.type from wanted n)) t
    group by 1, 2)
  select n.queue, n.type, sum(o.workers)::bigint, sum(o.running)::bigint, sum(o.slots)::bigint, sum(o.busy)::bigint
  from wanted n
  cross join lateral (values (n.queue, n.type), (n.queue, ''), ('', n.type), ('', '')) k(queue, type)
  join offers o on o.queue = k.queue and o.type = k.type
  group by 1, 2
$$;
