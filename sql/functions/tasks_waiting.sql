-- Returns why these tasks wait: five numbers for each id, in their order (an id may be null: no task). The first is the
-- reason, of enum WaitReason in task.proto: the first that applies; 0: the task does not wait. The others are 0 or
-- belong to the reason: the task that is waited for, the number of workers that accept the task, their slots, and how
-- many of those are busy. Returns null if none of the tasks waits. max_details: the maximum length of details that the
-- manager assigns, in bytes; null: any.
create or replace function tasks_waiting(ids bigint[], max_details bigint) returns bigint[]
language plpgsql stable set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan as $$
declare
  now_at constant timestamptz := statement_timestamp();
  some_wait boolean;
  due_queues text[];
  due_types text[];
begin
  -- Only tasks that just wait for a worker need a query of the workers.
  select count(*) > 0, array_agg(x.queue) filter (where x.due), array_agg(x.type) filter (where x.due)
  into some_wait, due_queues, due_types
  from (
    select distinct t.queue, t.type, t.due
    from unnest(ids) u(id)
    cross join lateral (
      select t.queue, t.type, t.run_at <= now_at
        and not exists (select from queues q where q.name = t.queue
          and (q.state <> 'running' or q.waiting_until > now_at)) as due
      from tasks t where t.id = u.id and t.status in ('queued', 'failed') offset 0) t) x;
  if not some_wait then
    return null;
  end if;
  return (
    select array_agg(array[r.reason,
      case when r.reason = WAIT_REASON_BATCH_ENTRY then coalesce(t.entry_id, 0) else 0 end,
      case when r.reason = WAIT_REASON_WORKERS_PAUSED then w.workers
        when r.reason in (WAIT_REASON_WORKERS_BUSY, WAIT_REASON_TURN) then w.running else 0 end,
      case when r.reason in (WAIT_REASON_WORKERS_BUSY, WAIT_REASON_TURN) then w.slots
        when r.reason = WAIT_REASON_QUEUE_LIMIT then t.maximum else 0 end,
      case when r.reason in (WAIT_REASON_WORKERS_BUSY, WAIT_REASON_TURN) then w.busy else 0 end] order by u.place)
    from unnest(ids) with ordinality u(id, place)
    left join lateral (
      select t.queue, t.type, t.status, t.run_at, t.blocked_run_at, t.batch_id, octet_length(t.details) as details,
        (select q.state from queues q where q.name = t.queue) as queue_state,
        (select q.waiting_until from queues q where q.name = t.queue) > now_at as queue_waits,
        (select l.maximum from limits l where l.queue = t.queue) as maximum,
        (select l.taken from limits l where l.queue = t.queue) as taken,
        case when t.blocked_run_at is not null then (select b.entry_id from batches b where b.id = t.batch_id) end as entry_id
      from tasks t where t.id = u.id and t.status in ('queued', 'failed') offset 0) t on true
    left join (select * from workers_for(due_queues, due_types, true) where due_queues is not null) w
      on w.queue = t.queue and w.type = t.type
    cross join lateral (select case
      when t.status is null then WAIT_REASON_UNSPECIFIED
      when t.queue_state in ('stopping', 'stopped') then WAIT_REASON_QUEUE_STOPPED
      when t.queue_state = 'paused' then WAIT_REASON_QUEUE_PAUSED
      when t.queue_state = 'not_started' then WAIT_REASON_QUEUE_NOT_STARTED
      when t.blocked_run_at is not null and t.batch_id is null then WAIT_REASON_INBOX
      when t.blocked_run_at is not null then WAIT_REASON_BATCH_ENTRY
      when t.run_at > now_at and t.status = 'failed' then WAIT_REASON_RETRY_DELAY
      when t.run_at > now_at then WAIT_REASON_NOT_DUE
      when t.details > max_details then WAIT_REASON_DETAILS_TOO_LONG
      when t.queue_waits then WAIT_REASON_WAITING_PERIOD
      when w.workers is null then WAIT_REASON_NO_WORKER
      when w.running = 0 then WAIT_REASON_WORKERS_PAUSED
      when t.taken >= t.maximum then WAIT_REASON_QUEUE_LIMIT
      when w.busy >= w.slots then WAIT_REASON_WORKERS_BUSY
      else WAIT_REASON_TURN end as reason) r);
end $$;
