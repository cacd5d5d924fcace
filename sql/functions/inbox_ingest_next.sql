-- Ingests tasks of the inbox: the first one after the id `beyond`, and those with the same queue, type and batch, up to
-- `most`. Takes the locks that any submit takes; skips tasks that another manager is ingesting. Returns the id up to
-- which it came (null: there are no more), how many tasks it ingested, and if their batch refuses them, which tasks the
-- caller must end in the same transaction, with the code and the reason. A closed batch takes them until it has ended
-- (batch_step waits for them): when they were submitted, its close was not committed.
create or replace function inbox_ingest_next(beyond bigint, most int, out walked bigint, out ingested int, out refused bigint[], out code text,
  out reason text)
language plpgsql as $$
#variable_conflict use_column
declare
  a record;
  q queues;
  b record;
  closed batches;
  ids bigint[];
  late bigint[];
  way int;
begin
  ingested := 0;
  select x.task_id, x.batch_id, t.id, t.queue, t.type into a
  from inbox x left join tasks t on t.id = x.task_id and t.blocked_run_at is not null and t.batch_id is null
  where x.task_id > beyond and not exists (select from queues s where s.name = t.queue and s.state = 'stopping')
  order by x.task_id limit 1 for update of x skip locked;
  walked := a.task_id;
  if a.id is null then
    delete from inbox where task_id = a.task_id;
    return;
  end if;
  -- Only the next `most` tasks are searched: if each task has its own type or batch, the others are not all read for
  -- each.
  ids := array(
    select x.task_id from inbox x join tasks t on t.id = x.task_id
    where x.task_id between a.task_id and (
        select max(task_id) from (select task_id from inbox where task_id >= a.task_id order by task_id limit most) n)
      and t.queue = a.queue and t.type = a.type and x.batch_id is not distinct from a.batch_id
    order by x.task_id for update of x skip locked);
  -- A newer version may have changed the type since. Such a task stays in the inbox for a later call.
  ids := array(
    select id from tasks where id = any(ids) and status = 'queued' and blocked_run_at is not null and batch_id is null
      and queue = a.queue and type = a.type
    order by id for no key update);
  perform pipeline_routes(p, a.queue) from (
    select distinct pipeline_id as p from tasks where id = any(ids) and pipeline_id is not null order by 1) p;
  way := route_of(a.queue, a.type); -- after the pipelines' routes, which are created in the order of their names
  select * into q from queues where name = a.queue for no key update;
  -- A task that was submitted before its queue was stopped ends with the others: the stop finds it by its route.
  if q.state in ('stopping', 'stopped') and a.batch_id is null then
    late := array(select id from tasks where id = any(ids) and id <= q.stopped_id and last_updated <= q.stopped_at);
    perform tasks_counted(late, -1);
    update tasks set route_id = way, run_at = blocked_run_at, blocked_run_at = null where id = any(late);
    perform tasks_counted(late, 1);
    delete from inbox where task_id = any(late);
    ids := array(select i from unnest(ids) i where i <> all(late));
  end if;
  if ids = '{}' then
    return;
  end if;
  perform lock_batches(array[a.batch_id, q.batch_id], '{}', '{}');
  select * into closed from batches where id = a.batch_id;
  if closed.closed_at is not null and closed.queue = a.queue and not closed.stopped and closed.phase not in ('exit', 'ended')
    and coalesce(closed.entry_status, 'completed') = 'completed' then
    select closed.id as batch_id, closed.entry_type is not null and closed.phase in ('new', 'entry') as blocked, closed.phase = 'new' as begins
    into b;
  else
    begin
      select * into b from submit_batches(gen_random_uuid(), array[a.queue], array[a.batch_id], array[null::text]);
    exception
      when sqlstate 'RV503' then -- it is being stopped: a later call ingests them
        return;
      when sqlstate 'RV400' or sqlstate 'RV404' or sqlstate 'RV409' then
        perform tasks_counted(ids, -1);
        update tasks set route_id = way where id = any(ids);
        perform tasks_counted(ids, 1);
        delete from inbox where task_id = any(ids);
        refused := ids;
        code := case sqlstate when 'RV409' then 'batch_closed' when 'RV404' then 'batch_gone' else 'batch_wrong' end;
        reason := sqlerrm;
        return;
    end;
  end if;
  perform tasks_counted(ids, -1);
  update tasks set route_id = way, batch_id = b.batch_id,
    run_at = case when b.blocked then 'infinity' else greatest(blocked_run_at, clock_timestamp()) end,
    blocked_run_at = case when b.blocked then blocked_run_at end,
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = any(ids);
  perform tasks_counted(ids, 1);
  ingested := cardinality(ids);
  delete from inbox where task_id = any(ids);
  if b.batch_id is not null then
    update batches x set submitted = x.submitted + ingested, pending = x.pending + ingested where x.id = b.batch_id;
    if b.begins then
      perform batches_begin(array[b.batch_id]);
    end if;
  end if;
  if not b.blocked then
    perform pg_notify('reeve_notify', format('0 %s %s %s', way, priority, (extract(epoch from min(run_at)) * 1000000)::bigint))
    from tasks where id = any(ids) group by priority;
  end if;
end $$;
