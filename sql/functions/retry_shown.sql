-- Converts a retry policy, as in the columns of these names, to the contract's RetryPolicy.
create or replace function retry_shown(policy jsonb, base_ms bigint, max_ms bigint) returns jsonb language sql immutable as $$
  select '{"kind": "exponential", "jitter_percent": DEFAULT_JITTER_PERCENT}' || coalesce(policy, '{}')
    || case when policy -> 'jitter_percent' = '0' then '{"jitter_percent": -1}' else '{}' end::jsonb
    || jsonb_build_object('base_ms', base_ms, 'max_ms', max_ms)
$$;
