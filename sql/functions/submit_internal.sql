-- Submits a task of Reeve itself, in the transaction that caused it, and notifies the managers. Its options are the
-- queue's. Returns its id.
create or replace function submit_internal(in_queue text, of_type text, with_details text, in_batch bigint, by text) returns bigint
language plpgsql as $$
declare
  q queues;
  t tasks;
begin
  select * into q from queues where name = in_queue;
  t.route_id := route_of(in_queue, of_type);
  t.queue := in_queue;
  t.type := of_type;
  t.details := with_details;
  t.run_at := clock_timestamp();
  t.created := t.run_at;
  t.max_attempts := q.max_attempts;
  t.priority := q.priority;
  t.timeout_ms := q.timeout_ms;
  t.retry_base_ms := queue_retry_base_ms(q, DEFAULT_RETRY_BASE_MS);
  t.retry_max_ms := q.retry_max_ms;
  t.retry_policy := q.retry_policy;
  t.batch_id := in_batch;
  t.source := by;
  t := task_insert(t);
  -- now() is the same for all tasks that the transaction adds, and equal notifications are sent once.
  perform pg_notify('reeve_notify', format('0 %s %s %s', t.route_id, t.priority, (extract(epoch from now()) * 1000000)::bigint));
  return t.id;
end $$;
