-- Returns the queues and types with tasks that no worker accepts: tasks that wait for a claim or a retry, in queues
-- that give out tasks. Of one queue, of one type, or (null) of all.
create or replace function unserved(of_queue text, of_type text) returns table (queue text, type text, tasks bigint)
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
