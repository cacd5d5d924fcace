-- The rest after a queue's tasks' first failed attempt, in ms: where a linear policy says none, the resting period is it.
create or replace function queue_retry_base_ms(q queues, otherwise bigint) returns bigint language sql immutable parallel safe as $$
  select coalesce(q.retry_base_ms, case when q.retry_policy ->> 'kind' = 'linear' then q.resting_ms end, otherwise)
$$;
