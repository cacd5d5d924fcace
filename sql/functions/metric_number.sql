-- Returns the value of a metric as it is stored: a 64-bit integer exactly, another number as the shortest text of the double.
create or replace function metric_number(value numeric) returns numeric language sql immutable as $$
  select coalesce(metric_integer(value), value::float8::text::numeric)
$$;
