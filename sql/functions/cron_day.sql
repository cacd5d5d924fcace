-- Returns the first day from `from_day` on that fits; null if none does. A date falls on the same day of the week again
-- after 40 years at the latest.
create or replace function cron_day(plan cron_plan, from_day date) returns date language plpgsql immutable as $$
declare
  day date := from_day;
  fits_day boolean;
  fits_weekday boolean;
begin
  while day < from_day + 365 * 41 loop
    if extract(month from day)::int <> all(plan.months) then
      day := date_trunc('month', day::timestamp) + interval '1 month';
      continue;
    end if;
    fits_day := extract(day from day)::int = any(plan.days);
    fits_weekday := extract(dow from day)::int = any(plan.weekdays);
    if fits_day and fits_weekday or plan.either and (fits_day or fits_weekday) then
      return day;
    end if;
    day := day + 1;
  end loop;
  return null;
end $$;
