-- Changes live tasks. Of an executing one only the priority and the maximum attempts can change, and its token stays. A task
-- for which a change is not possible stays as it is, and `refused` says why (task_unchangeable, key_move):
--   executing, stage (its pipeline has no such stage), attempts (the maximum is below those so far), batch (it is in a batch, or
--   not ingested yet, and so stays in its queue), stopped (the queue), key (another task has it)
--   change: the new values of any of "priority", "run_at" (us), "max_attempts", "details", "queue", "timeout_ms", "key",
--   "stage". A key goes with its task to another queue.
create or replace function tasks_update(ids bigint[], change jsonb, by text)
returns table (id bigint, status text, refused text, version timestamptz, run_at timestamptz, route_id int, priority int)
language plpgsql as $$
#variable_conflict use_column
declare
  stopped constant text[] := array(select name from queues where state in ('stopping', 'stopped'));
  taken bigint[] := '{}'; -- tasks whose new key another one has
begin
  perform from tasks where id = any(ids) order by id for no key update;
  if change ?| array['queue', 'key', 'stage'] then
    taken := array(
      select x.id from tasks x cross join lateral task_updated(x, change) n
      where x.id = any(ids) and (n.queue, n.key) is distinct from (x.queue, x.key) and n.key is not null
        and case when task_unchangeable(x, n, change, stopped) is null then not key_move(x.id,
          array(select a.queue from task_attempts a where a.task_id = x.id) || x.queue, x.key, n.queue, n.key) end
      order by x.id);
  end if;
  if change ? 'queue' then
    perform pipeline_routes(p.pipeline_id, change ->> 'queue')
    from (select distinct pipeline_id from tasks where id = any(ids) and pipeline_id is not null) p;
  end if;
  return query
  with decided as materialized (
    select x as o, n, coalesce(task_unchangeable(x, n, change, stopped), case when x.id = any(taken) then 'key' end) as refused,
      (n.queue, n.type) is distinct from (x.queue, x.type) as moves
    from tasks x cross join lateral task_updated(x, change) n where x.id = any(ids)),
   ways as materialized (
    select queue, type, route_of(queue, type) as way
    from (select distinct (n).queue, (n).type from decided where moves and refused is null order by 1, 2) x),
   changed as (
    update tasks x set priority = (d.n).priority, max_attempts = (d.n).max_attempts, details = coalesce(change ->> 'details', x.details),
      queue = (d.n).queue, route_id = coalesce(d.way, x.route_id), timeout_ms = (d.n).timeout_ms, key = (d.n).key,
      run_at = (d.n).run_at, blocked_run_at = (d.n).blocked_run_at, stage = (d.n).stage, step = (d.n).step, type = (d.n).type,
      retry_base_ms = (d.n).retry_base_ms, retry_max_ms = (d.n).retry_max_ms, retry_policy = (d.n).retry_policy,
      attempt = (d.n).attempt, status = (d.n).status, retrying = (d.n).retrying,
      last_updated = case when x.status = 'executing' then x.last_updated
        else greatest(clock_timestamp(), x.last_updated + interval '1us') end
    from (
      select d.*, w.way from decided d left join ways w on d.moves and w.queue = (d.n).queue and w.type = (d.n).type
      where d.refused is null) d
    where x.id = any(array[(d.o).id])
    returning x.id, x.status, x.last_updated, x.run_at, x.route_id, x.priority, x.retrying, octet_length(x.details) as length),
   counted as (
    insert into count_changes (route_id, due, live, retrying)
    select v.route_id, v.due, sum(v.live), sum(v.retrying)
    from changed c join decided d on (d.o).id = c.id
    cross join lateral (values
      ((d.o).route_id, delayed_to((d.o).retrying, (d.o).run_at, (d.o).last_updated), -1, case when (d.o).retrying then -1 else 0 end),
      (c.route_id, delayed_to(c.retrying, c.run_at, c.last_updated), 1, case when c.retrying then 1 else 0 end))
      v(route_id, due, live, retrying)
    where c.status <> 'executing' group by 1, 2 having sum(v.live) <> 0 or sum(v.retrying) <> 0),
   noted as (
    insert into task_events (task_id, version, event, actor, note)
    select c.id, c.last_updated, 'updated', by, concat_ws(', ',
      case when change ? 'priority' then format('priority %s -> %s', (d.o).priority, c.priority) end,
      case when change ? 'run_at' then format('run_at %s -> %s', (d.o).run_at, c.run_at) end,
      case when change ? 'max_attempts' then format('max_attempts %s -> %s', (d.o).max_attempts, (d.n).max_attempts) end,
      case when change ? 'details' then format('details of %s bytes -> %s bytes', octet_length((d.o).details), c.length) end,
      case when change ? 'queue' then format('queue %s -> %s', (d.o).queue, (d.n).queue) end,
      case when change ? 'timeout_ms' then format('timeout %s ms -> %s ms', (d.o).timeout_ms, (d.n).timeout_ms) end,
      case when change ? 'key' then format('key %s -> %s', coalesce((d.o).key, '(none)'), (d.n).key) end,
      case when change ? 'stage' then format('stage %s -> %s', (d.o).stage, (d.n).stage) end)
    from changed c join decided d on (d.o).id = c.id)
  select (d.o).id, coalesce(c.status, (d.o).status), d.refused, coalesce(c.last_updated, (d.o).last_updated),
    coalesce(c.run_at, (d.o).run_at), coalesce(c.route_id, (d.o).route_id), coalesce(c.priority, (d.o).priority)
  from decided d left join changed c on c.id = (d.o).id;
end $$;
