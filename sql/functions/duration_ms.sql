-- Converts a duration as the commands accept it ("250ms", "5s", "1m30s", or seconds without a unit) to ms; null if it
-- is invalid.
create or replace function duration_ms(given text) returns bigint language sql immutable parallel safe as $$
  select case when given ~ '^[0-9]{1,9}([.][0-9]{1,9})?$' then trunc(given::numeric * 1000)
    when given ~ '^([0-9]{1,9}([.][0-9]{1,9})?(ms|s|m|h|d))+$' then (
      select trunc(sum(p[1]::numeric * case p[2] when 'ms' then 1 when 's' then 1000 when 'm' then 60000
        when 'h' then 3600000 else 86400000 end))
      from regexp_matches(given, '([0-9.]+)(ms|s|m|h|d)', 'g') p) end
$$;
