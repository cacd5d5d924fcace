-- Returns the retry delay after the n-th failed attempt, in ms, before the random part is subtracted.
create or replace function retry_delay_ms(policy jsonb, base bigint, longest bigint, n int) returns float8
language sql immutable parallel safe as $$
  select least(longest::float8, case coalesce(policy ->> 'kind', 'exponential')
    when 'fixed' then base::float8
    when 'linear' then base + (n - 1) * (policy ->> 'step_ms')::float8
    when 'polynomial' then base * power(n::float8, (policy ->> 'exponent')::float8)
    when 'list' then (policy -> 'delays_ms' ->> least(n - 1, jsonb_array_length(policy -> 'delays_ms') - 1))::float8
    else base * power(2::float8, least(n - 1, 60)) end)
$$;
