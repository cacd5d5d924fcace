-- Returns the first time after `after` at which a plan fires; null if there is none. An expression that allows every
-- hour follows elapsed time: it fires at each minute whose local time fits, in both hours if one is repeated. All
-- others follow the local time: each time of a day that fits fires once; a repeated time the first time, a skipped time
-- when the gap is over.
create or replace function cron_after(plan cron_plan, zone text, after timestamptz) returns timestamptz language plpgsql stable as $$
declare
  wall timestamp := date_trunc('minute', after at time zone zone);
  day date := wall::date;
  h int;
  m int;
  at timestamptz;
begin
  if not isfinite(after) then
    return null;
  end if;
  if array_length(plan.hours, 1) < 24 then
    loop
      day := cron_day(plan, day);
      exit when day is null;
      foreach h in array plan.hours loop
        continue when day = wall::date and h < extract(hour from wall);
        foreach m in array plan.minutes loop
          at := clock_reads(zone, day + make_interval(hours => h, mins => m));
          if at > after then
            return at;
          end if;
        end loop;
      end loop;
      day := day + 1;
    end loop;
    return null;
  end if;
  at := after + (wall + interval '1 minute' - (after at time zone zone));
  loop
    wall := at at time zone zone;
    day := cron_day(plan, wall::date);
    exit when day is null;
    if day > wall::date then
      -- Clocks that are about to be set back may return to a day that fits.
      if (at + interval '3h') at time zone zone < wall + interval '3h' then
        at := at + interval '1 minute';
      else
        at := greatest(clock_reads(zone, day::timestamp), at + interval '1 minute');
      end if;
    else
      h := extract(minute from wall);
      if h = any(plan.minutes) then
        return at;
      end if;
      m := coalesce((select min(u) from unnest(plan.minutes) u where u > h), plan.minutes[1] + 60) - h;
      if (at + make_interval(mins => m)) at time zone zone = wall + make_interval(mins => m) then
        at := at + make_interval(mins => m);
      else
        at := at + interval '1 minute'; -- also passes a clock change of less than an hour
      end if;
    end if;
  end loop;
  return null;
end $$;
