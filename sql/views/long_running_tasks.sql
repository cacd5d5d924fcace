-- Executing tasks, those that have executed longest first.
create or replace view long_running_tasks as
  select t.id, t.queue, t.type, t.last_updated as since, clock_timestamp() - t.last_updated as running,
    interval '1 ms' * t.timeout_ms as timeout, t.expiry, t.attempt, t.max_attempts, w.name as worker, w.host,
    t.cancel_requested_at is not null as cancel_requested, t.key, t.batch_id, t.source, t.created, t.remark, t.details
  from tasks t left join workers w on w.id = t.worker_id
  where t.status = 'executing'
  order by t.last_updated;
