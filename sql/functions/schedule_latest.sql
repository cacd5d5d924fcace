-- Returns the last `most` of the scheduled times after `after` up to `upto`. By cron each must be computed, going
-- forward. They are counted from the end, in pieces that grow, and each piece once, so that hardly more times are
-- computed than needed.
create or replace function schedule_latest(s schedules, after timestamptz, upto timestamptz, most int) returns timestamptz[]
language plpgsql stable as $$
declare
  early timestamptz;
  late timestamptz := upto;
  middle timestamptz;
  span interval := interval '1 minute' * most;
  counted int := 0;                        -- the times after `late`
  n int;
begin
  if most = 0 then
    return '{}';
  elsif s.every_ms is not null then
    -- Otherwise the product may lie before all times that the database knows.
    early := case when extract(epoch from upto - after) * 1000 > s.every_ms::numeric * most
      then greatest(after, upto - interval '1ms' * (s.every_ms::float8 * most)) else after end;
    return schedule_times(s, early, upto, most);
  end if;
  loop
    early := greatest(after, late - span);
    n := cardinality(schedule_times(s, early, late, most - counted + 1));
    exit when counted + n > most;
    late := early;
    counted := counted + n;
    exit when late <= after;
    span := span * 2;
  end loop;
  while late - early > interval '1s' loop
    middle := early + (late - early) / 2;
    n := cardinality(schedule_times(s, middle, late, most - counted + 1));
    if counted + n > most then
      early := middle;
    else
      late := middle;
      counted := counted + n;
    end if;
  end loop;
  return schedule_times(s, late, upto, most);
end $$;
