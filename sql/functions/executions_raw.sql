-- Returns attempts that ended in [from_at, to_at). kept_from: not later than the day of from_at (UTC); no such task is
-- deleted before that day. with_task: queue and type are wanted, also of older attempts, which requires a lookup of
-- their tasks.
create or replace function executions_raw(from_at timestamptz, to_at timestamptz, kept_from date, with_task boolean)
returns table (queue text, type text, well boolean, ended timestamptz, us bigint) language sql stable as $$
  select coalesce(a.queue, t.queue, ''), coalesce(a.type, t.type, ''), a.outcome = 'completed', a.last_updated,
    (extract(epoch from a.last_updated - a.token) * 1000000)::bigint
  from task_attempts a left join lateral (
    select live.queue, live.type from tasks live where with_task and a.queue is null and live.id = a.task_id
    union all
    select h.queue, h.type from task_history h where with_task and a.queue is null and h.task_id = a.task_id
    offset 0) t on true
  where a.last_updated >= from_at and a.last_updated < to_at and a.outcome <> 'requeued'
  union all
  select h.queue, h.type, h.status = 'completed', h.last_updated, (extract(epoch from h.last_updated - h.token) * 1000000)::bigint
  from task_history h
  where h.token is not null and h.last_updated >= from_at and h.last_updated < to_at and h.keep_until >= kept_from
$$;
