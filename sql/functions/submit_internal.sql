-- A task that Reeve itself submits, in the transaction of whatever caused it; the managers are told. Its options are the queue's.
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
  t.retry_base_ms := queue_retry_base_ms(q, 1000);
  t.retry_max_ms := q.retry_max_ms;
  t.retry_policy := q.retry_policy;
  t.batch_id := in_batch;
  t.source := by;
  t := task_insert(t);
  -- The transaction's time is the same for all that it adds, and equal notifications are sent once.
  perform pg_notify('reeve_wake', format('0 %s 0 %s', t.route_id, (extract(epoch from now()) * 1000000)::bigint));
  return t.id;
end $$;
