-- Returns the maximum random part that is subtracted from a retry delay, as a share of the delay.
create or replace function retry_jitter(policy jsonb) returns float8 language sql immutable parallel safe as $$
  select coalesce((policy ->> 'jitter_percent')::float8, DEFAULT_JITTER_PERCENT) / 100
$$;
