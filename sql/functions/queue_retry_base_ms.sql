-- Returns the retry delay after the first failed attempt of a queue's tasks, in ms. If a linear policy does not set
-- one, it is the resting period.
create or replace function queue_retry_base_ms(q queues, otherwise bigint) returns bigint language sql immutable parallel safe as $$
  select coalesce(q.retry_base_ms, case when q.retry_policy ->> 'kind' = 'linear' then q.resting_ms end, otherwise)
$$;
