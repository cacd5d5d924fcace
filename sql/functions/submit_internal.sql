-- A task that Reeve itself submits, in the transaction of whatever caused it; the managers are told. Its options are the queue's.
create or replace function submit_internal(in_queue text, of_type text, with_details text, in_batch bigint, by text) returns bigint
language plpgsql as $$
declare
  made bigint;
  way int := route_of(in_queue, of_type);
  at timestamptz := clock_timestamp();
begin
  insert into tasks (route_id, queue, type, details, run_at, max_attempts, retry_base_ms, retry_max_ms, retry_policy,
    batch_id, source, created, last_updated)
  select way, in_queue, of_type, with_details, at, coalesce(q.max_attempts, 5), queue_retry_base_ms(q, 1000),
    coalesce(q.retry_max_ms, 3600000), q.retry_policy, in_batch, by, at, at
  from (select) one left join queues q on q.name = in_queue
  returning id into made;
  perform tasks_counted(array[made], 1);
  -- The transaction's time is the same for all that it makes, and equal notifications are sent once.
  perform pg_notify('reeve_wake', format('0 %s 0 %s', way, (extract(epoch from now()) * 1000000)::bigint));
  return made;
end $$;
