-- Converts an interval to ms. Raises 22023 if it is shorter than `least_ms` or longer than `most_ms`.
create or replace function check_interval(parameter text, given interval, least_ms bigint, most_ms bigint) returns bigint
language plpgsql immutable as $$
declare
  ms numeric := trunc(extract(epoch from given) * 1000);
begin
  if not isfinite(given) or ms < least_ms or ms > most_ms or given < interval '0' then
    raise exception using errcode = '22023', message = format('%s is %s; it must be from %s to %s', parameter, given,
      justify_hours(interval '1ms' * least_ms), justify_hours(interval '1ms' * most_ms));
  end if;
  return ms;
end $$;
