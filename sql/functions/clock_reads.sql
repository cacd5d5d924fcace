-- Returns when the clocks of a zone first show `wall` or a later time. If they show it twice, that is the first time;
-- if they skip it, the moment after the gap.
create or replace function clock_reads(zone text, wall timestamp) returns timestamptz language plpgsql stable as $$
declare
  around timestamptz := wall at time zone 'UTC';
  early timestamptz;
  late timestamptz;
  middle timestamptz;
begin
  -- Try the offset of a day before and that of a day after: clocks change once in that time.
  late := around - (((around - interval '24h') at time zone zone) - ((around - interval '24h') at time zone 'UTC'));
  if late at time zone zone = wall then
    return late;
  end if;
  early := around - (((around + interval '24h') at time zone zone) - ((around + interval '24h') at time zone 'UTC'));
  if early at time zone zone = wall then
    return early;
  end if;
  while late - early > interval '1s' loop
    middle := early + date_trunc('second', (late - early) / 2);
    if middle at time zone zone >= wall then
      late := middle;
    else
      early := middle;
    end if;
  end loop;
  return late;
end $$;
