-- Returns the value of a metric if it is a 64-bit integer, else null.
create or replace function metric_integer(value numeric) returns bigint language sql immutable as $$
  select case when scale(value) = 0 and value between -9223372036854775808 and 9223372036854775807 then value::bigint end
$$;
