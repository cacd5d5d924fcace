-- Returns the sum of two values of a metric. That of two 64-bit integers is exact; raises RV409 if it is not one.
create or replace function metric_sum(a numeric, b numeric, of_category text, of_name text) returns numeric
language plpgsql immutable as $$
begin
  if metric_integer(a) is null or metric_integer(b) is null then
    return metric_number((a::float8 + b::float8)::text::numeric);
  elsif metric_integer(a + b) is null then
    raise exception using errcode = 'RV409',
      message = format('the sum of metric "%s" of category "%s" is not a 64-bit integer', of_name, of_category);
  end if;
  return a + b;
end $$;
