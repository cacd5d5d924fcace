-- Why tasks wait, worked out for whoever looks at them: nothing of it is kept, and no submit, claim or end does anything for it.

-- Which workers take tasks of these queues and types (pairs: as many of the one as of the other): how many are alive, how many of
-- those neither pause nor drain, how many slots these have together, and how many of the slots are busy. No row: there is none.
-- The workers are read once, and grouped by what they take, so that many of them, or many pairs, cost no product of the two. Those
-- who pull by hand do not count: nobody knows what they will ask for. Without `with_busy` no slot counts as busy. Of more than
-- 1,000 workers up to 50,000 open rows of the journal are read; with more, slots are taken for free that are not.
create function workers_for(of_queues text[], of_types text[], with_busy boolean)
returns table (queue text, type text, workers bigint, running bigint, slots bigint, busy bigint)
language sql stable set enable_seqscan = off set enable_nestloop = off as $$
  with wanted as materialized (select distinct u.queue, u.type from unnest(of_queues, of_types) u(queue, type)),
   alive as materialized ( -- of few pairs, only those that take one
    select w.id, w.queues, w.types, w.state, w.concurrency
    from workers w
    where w.gone_at is null and not w.by_hand and not w.lost
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
      count(*) as workers, count(*) filter (where w.state = 'running') as running,
      coalesce(sum(w.concurrency) filter (where w.state = 'running'), 0) as slots,
      coalesce(sum(least(coalesce(h.open, 0), w.concurrency)) filter (where w.state = 'running'), 0) as busy
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

-- Why these tasks wait: five numbers for each id (null: none is wanted), in their order. The first is the reason, of enum
-- WaitReason in task.proto: the first that holds; 0: it does not wait. The others are 0 or belong to it: the task that is waited
-- for, how many workers take it, their slots, and how many of those are busy. Null: none of the tasks waits.
create function tasks_waiting(ids bigint[]) returns bigint[]
language plpgsql stable set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan as $$
declare
  now_at constant timestamptz := statement_timestamp();
  some_wait boolean;
  due_queues text[];
  due_types text[];
begin
  -- What only a worker keeps waiting: that alone needs a look at the workers.
  select count(*) > 0, array_agg(x.queue) filter (where x.due), array_agg(x.type) filter (where x.due)
  into some_wait, due_queues, due_types
  from (
    select distinct t.queue, t.type, t.due
    from unnest(ids) u(id)
    cross join lateral (
      select t.queue, t.type, t.run_at <= now_at
        and not exists (select from queues q where q.name = t.queue and q.state <> 'running') as due
      from tasks t where t.id = u.id and t.status in ('queued', 'failed') offset 0) t) x;
  if not some_wait then
    return null;
  end if;
  return (
    select array_agg(array[r.reason, case when r.reason = 5 then coalesce(t.entry_id, 0) else 0 end,
      case when r.reason = 9 then w.workers when r.reason in (10, 11) then w.running else 0 end,
      case when r.reason in (10, 11) then w.slots else 0 end,
      case when r.reason in (10, 11) then w.busy else 0 end] order by u.place)
    from unnest(ids) with ordinality u(id, place)
    left join lateral (
      select t.queue, t.type, t.status, t.run_at, t.held_run_at, t.batch_id,
        (select q.state from queues q where q.name = t.queue) as queue_state,
        case when t.held_run_at is not null then (select b.entry_id from batches b where b.id = t.batch_id) end as entry_id
      from tasks t where t.id = u.id and t.status in ('queued', 'failed') offset 0) t on true
    left join (select * from workers_for(due_queues, due_types, true) where due_queues is not null) w
      on w.queue = t.queue and w.type = t.type
    cross join lateral (select case
      when t.status is null then 0
      when t.queue_state in ('stopping', 'stopped') then 1
      when t.queue_state = 'paused' then 2
      when t.queue_state = 'held' then 3
      when t.held_run_at is not null and t.batch_id is null then 4 -- of `arrivals`
      when t.held_run_at is not null then 5
      when t.run_at > now_at and t.status = 'failed' then 6
      when t.run_at > now_at then 7
      when w.workers is null then 8
      when w.running = 0 then 9
      when w.busy >= w.slots then 10
      else 11 end as reason) r);
end $$;

-- Queues and types with tasks that no worker takes: those that wait to be claimed or tried again, of queues that give tasks. Of one
-- queue, of one type, or (null) of all.
create function unserved(of_queue text, of_type text) returns table (queue text, type text, tasks bigint)
language sql stable set enable_seqscan = off set enable_nestloop = off as $$
  with waiting as materialized (
    select r.queue, r.type, l.queued + l.failed as tasks
    from live_totals(of_queue) l join routes r on r.id = l.route_id
    where l.queued + l.failed > 0 and (of_type is null or r.type = of_type)
      and not exists (select from queues q where q.name = r.queue and q.state <> 'running'))
  select n.queue, n.type, n.tasks
  from waiting n
  left join workers_for(array(select x.queue from waiting x), array(select x.type from waiting x), false) w
    on w.queue = n.queue and w.type = n.type
  where w.workers is null
$$;
