-- Schedules: definitions of what is to happen again and again, apart from the runs they make.

-- next_at: the planned time of the next tick; null if there is none (it is by hand only, or will never come again). A tick is
-- taken by an update under last_updated, so that of any number of managers one makes it.
create table schedules (
  id bigint generated always as identity primary key,
  name text not null unique,
  cron text,                               -- five fields, or
  zone text not null default 'UTC',        -- (whose clocks the fields mean)
  every_ms bigint,                         -- a fixed interval,
  start_at timestamptz not null default clock_timestamp(), -- counted from here; or neither: by hand only
  spec jsonb,                              -- the task: see submit_task; "key" may have {name}, {date} and {time} in it
  queue_action text check (queue_action in ('start', 'stop', 'pause', 'resume')), -- or what is done
  action_queue text,                       -- with which queue
  missed text not null default 'one' check (missed in ('skip', 'one', 'all')),
  missed_most int not null default 1,      -- of all that were missed, so many (the latest) are made up for
  overlap text not null default 'queue' check (overlap in ('skip', 'queue', 'allow')),
  paused boolean not null default false,
  next_at timestamptz,
  last_at timestamptz,                     -- the planned time of the last tick that was made, or passed over
  retry_at timestamptz,                    -- a tick that could not be made is not tried again before
  last_task_id bigint,                     -- the last task it submitted
  source text not null default '',         -- who added it
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),   -- when it was edited, paused or resumed
  last_updated timestamptz not null default clock_timestamp(),
  check ((spec is null) <> (queue_action is null)),
  check ((queue_action is null) = (action_queue is null)),
  check (cron is null or every_ms is null)
) with (fillfactor = 50);
create index schedules_due on schedules (greatest(next_at, retry_at)) where not paused and next_at is not null;

-- What came of each tick. A planned time is there once, however many managers there are; runs by hand have none.
create table schedule_runs (
  id bigint generated always as identity primary key,
  schedule_id bigint not null,
  planned_at timestamptz,
  at timestamptz not null default clock_timestamp(),
  outcome text not null,                   -- submitted, existing (its key's task), acted (on a queue), missed, overlapped, refused
  task_id bigint,
  actor text not null default '',          -- who ran it by hand
  note text not null default '',
  unique (schedule_id, planned_at));
create index schedule_runs_at on schedule_runs (at);
create index schedule_runs_listed on schedule_runs (schedule_id, id);

-- --- cron expressions ------------------------------------------------------------------------------------------------

-- An expression as it was understood: the values each field takes, in order. either: both the day of the month and the day of
-- the week were restricted, and it is enough that one of them fits. problem: why it was not understood.
create type cron_plan as (minutes int[], hours int[], days int[], months int[], weekdays int[], either boolean, problem text);

-- What one field takes. `names` stand for its numbers from the lowest on.
create function cron_field(field text, what text, lowest int, highest int, names text[], out wanted int[], out problem text)
language plpgsql immutable as $$
declare
  part text;
  m text[];
  ends int[];
  value text;
  step int;
  size int := case highest when 7 then 7 else highest - lowest + 1 end; -- 7 is 0 again
  takes text := format('it takes %s to %s%s', lowest, highest,
    case when names <> '{}' then format(' or %s to %s', names[1], names[array_length(names, 1)]) end);
begin
  if field ~ '^(\*|[0-9]{1,2})$' then -- as most are
    wanted := array(select generate_series(lowest, highest - (highest = 7)::int));
    if field <> '*' then
      wanted := array(select n from unnest(wanted) n where n = field::int);
    end if;
    if wanted <> '{}' then
      return;
    end if;
  end if;
  wanted := '{}';
  foreach part in array string_to_array(field, ',') loop
    m := regexp_match(lower(part), '^(?:(\*)|([0-9]{1,3}|[a-z]+)(?:-([0-9]{1,3}|[a-z]+))?)(?:/([0-9]{1,3}))?$');
    if m is null then
      problem := format('%s: "%s" is none of *, a number, a range and a list of these, with or without a step; %s', what, part,
        takes);
      return;
    end if;
    ends := '{}';
    foreach value in array array_remove(m[2:3], null) loop
      if value ~ '^[0-9]' then
        ends := ends || value::int;
      else
        ends := ends || array_position(names, value) - 1 + lowest;
      end if;
      if ends[array_length(ends, 1)] is null or ends[array_length(ends, 1)] not between lowest and highest then
        problem := format('%s: there is no %s; %s', what, value, takes);
        return;
      end if;
    end loop;
    if ends[2] = 0 and ends[1] > 0 and highest = 7 then
      ends[2] := 7; -- fri-sun
    end if;
    if ends[1] > ends[2] then
      problem := format('%s: the range %s goes backwards; write it as two, like %s-%s,%s-%s', what, part, m[2], highest, lowest,
        m[3]);
      return;
    end if;
    step := m[4]::int;
    if step is not null and m[1] is null and m[3] is null then
      problem := format('%s: %s has a step and no range; write %s-%s/%s', what, part, m[2], highest, m[4]);
      return;
    elsif step not between 1 and size then
      problem := format('%s: a step of %s; %s, with a step of 1 to %s', what, step, takes, size);
      return;
    end if;
    if m[1] is not null then
      ends := array[lowest, case highest when 7 then 6 else highest end];
    end if;
    wanted := wanted || array(select case when highest = 7 then n % 7 else n end
      from generate_series(ends[1], coalesce(ends[2], ends[1]), coalesce(step, 1)) n);
  end loop;
  wanted := array(select distinct n from unnest(wanted) n order by n);
end $$;

create function cron_plan_of(expr text) returns cron_plan language plpgsql immutable as $$
declare
  plan cron_plan;
  fields text[] := regexp_split_to_array(btrim(expr, E' \t'), '[ \t]+');
  place int;
begin
  if length(expr) > 1000 then
    plan.problem := 'the expression has more than 1000 characters';
    return plan;
  elsif fields[1] like '@%' and array_length(fields, 1) = 1 then
    fields := string_to_array(case lower(fields[1])
      when '@hourly' then '0 * * * *' when '@daily' then '0 0 * * *' when '@midnight' then '0 0 * * *'
      when '@weekly' then '0 0 * * 0' when '@monthly' then '0 0 1 * *'
      when '@yearly' then '0 0 1 1 *' when '@annually' then '0 0 1 1 *' end, ' ');
    if fields is null then
      plan.problem := format('%s is not known; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually',
        left(expr, 50));
      return plan;
    end if;
  elsif expr is null or array_length(fields, 1) <> 5 then
    plan.problem := format('it has %s field%s; five are wanted: minute, hour, day of the month, month, day of the week',
      case when btrim(coalesce(expr, ''), E' \t') = '' then 0 else array_length(fields, 1) end,
      case when array_length(fields, 1) = 1 and fields[1] <> '' then '' else 's' end);
    return plan;
  end if;
  select wanted, problem into plan.minutes, plan.problem from cron_field(fields[1], 'minute', 0, 59, '{}');
  if plan.problem is null then
    select wanted, problem into plan.hours, plan.problem from cron_field(fields[2], 'hour', 0, 23, '{}');
  end if;
  if plan.problem is null then
    select wanted, problem into plan.days, plan.problem from cron_field(fields[3], 'day of the month', 1, 31, '{}');
  end if;
  if plan.problem is null then
    select wanted, problem into plan.months, plan.problem from cron_field(fields[4], 'month', 1, 12,
      '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
  end if;
  if plan.problem is null then
    select wanted, problem into plan.weekdays, plan.problem from cron_field(fields[5], 'day of the week', 0, 7,
      '{sun,mon,tue,wed,thu,fri,sat}');
  end if;
  plan.either := fields[3] not like '*%' and fields[5] not like '*%';
  return plan;
end $$;

-- The first day from `from_day` on that fits; null if none does. The same day of the year comes on the same day of the week after
-- 40 years at the latest.
create function cron_day(plan cron_plan, from_day date) returns date language plpgsql immutable as $$
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

-- When the clocks of a zone first read this, or more. A time they read twice is the first of the two; one they skip is the
-- moment after the gap.
create function clock_reads(zone text, wall timestamp) returns timestamptz language plpgsql stable as $$
declare
  around timestamptz := wall at time zone 'UTC';
  early timestamptz;
  late timestamptz;
  middle timestamptz;
begin
  -- By the offset of a day before, and by that of a day after: clocks change once in that time.
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

-- The first time after `after`; null if there is none. An expression that allows every hour goes by elapsed time: each minute
-- counts whose clock fits, in both hours if one is repeated. All others go by the clock: each time of a day that fits comes
-- once; one that is repeated the first time, one that is skipped when the gap is over.
create function cron_after(plan cron_plan, zone text, after timestamptz) returns timestamptz language plpgsql stable as $$
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
      -- Clocks that are about to be set back may come to a day that fits again.
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
        at := at + interval '1 minute'; -- past a change by less than an hour, too
      end if;
    end if;
  end loop;
  return null;
end $$;

create function cron_next(expr text, zone text, after timestamptz) returns timestamptz language plpgsql stable as $$
declare
  plan cron_plan := cron_plan_of(expr);
begin
  if plan.problem is not null then
    raise exception using errcode = 'RV400', message = format('cron expression "%s": %s', expr, plan.problem);
  end if;
  return cron_after(plan, zone, after);
end $$;

-- What is wrong with a cron expression, for people; null if it is fine.
create function cron_check(expr text) returns text language plpgsql stable strict as $$
declare
  plan cron_plan := cron_plan_of(expr);
begin
  if plan.problem is null and cron_day(plan, current_date) is null then
    return 'it never fires: no day of the month is in one of its months';
  end if;
  return plan.problem;
end $$;

-- A time zone's proper name, or what is wrong with it. Abbreviations and POSIX's rules are not taken: they mean less than they
-- seem to, or something else.
create function zone_find(zone text, out proper text, out problem text) language plpgsql stable as $$
begin
  select name into proper from pg_timezone_names
  where lower(name) = lower(zone) and name !~ '^(posix|right)/' and name not in ('Factory', 'localtime', 'posixrules');
  if proper is null then
    problem := format('there is no time zone "%s"; it takes names like UTC, Europe/Berlin and America/New_York', left(zone, 100));
  end if;
end $$;

create function zone_check(zone text) returns text language sql stable as $$
  select problem from zone_find(zone)
$$;

-- --- when schedules are due ------------------------------------------------------------------------------------------

-- The planned times after `after` up to `upto`, the first `most` of them.
create function schedule_times(s schedules, after timestamptz, upto timestamptz, most int) returns timestamptz[]
language plpgsql stable as $$
declare
  times timestamptz[] := '{}';
  plan cron_plan;
  at timestamptz := after;
  step numeric := s.every_ms * 1000;
  n numeric;
begin
  if s.cron is not null then
    plan := cron_plan_of(s.cron);
    if plan.problem is not null then
      raise exception using errcode = 'RV400', message = format('cron expression "%s": %s', s.cron, plan.problem);
    end if;
    while cardinality(times) < most loop
      at := cron_after(plan, s.zone, at);
      exit when at is null or at > upto;
      times := times || at;
    end loop;
  elsif s.every_ms is not null and isfinite(after) then
    n := greatest(floor(extract(epoch from after - s.start_at) * 1000000 / step) + 1, 0);
    while cardinality(times) < most loop
      at := s.start_at + interval '1us' * (n * step)::float8;
      exit when at > upto;
      times := times || at;
      n := n + 1;
    end loop;
  end if;
  return times;
end $$;

-- The first planned time after `after`; null if there is none.
create function schedule_next(s schedules, after timestamptz) returns timestamptz language sql stable as $$
  select (schedule_times(s, after, 'infinity', 1))[1]
$$;

-- Of the planned times after `after` up to `upto` the last `most`. By cron each has to be found, going forwards: they are counted
-- from the end, in pieces that grow, and each piece once, so that hardly more are looked at than are wanted.
create function schedule_latest(s schedules, after timestamptz, upto timestamptz, most int) returns timestamptz[]
language plpgsql stable as $$
declare
  early timestamptz;
  late timestamptz := upto;
  middle timestamptz;
  span interval := interval '1 minute' * most;
  counted int := 0;                        -- those after `late`
  n int;
begin
  if most = 0 then
    return '{}';
  elsif s.every_ms is not null then
    early := greatest(after, upto - interval '1ms' * (s.every_ms::float8 * most));
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

-- How many times were planned after `after` before `until`; by cron, where each has to be found, it counts to 1000 only.
create function schedule_count(s schedules, after timestamptz, until timestamptz) returns bigint language sql stable as $$
  select case when s.every_ms is not null then
    greatest(ceil(extract(epoch from until - s.start_at) * 1000 / s.every_ms), 0)::bigint
      - greatest(floor(extract(epoch from after - s.start_at) * 1000 / s.every_ms) + 1, 0)::bigint
    else cardinality(schedule_times(s, after, until - interval '1us', 1000)) end
$$;

-- A planned time as it is in keys: in UTC, with fractions of a second only if it has some.
create function schedule_time_text(at timestamptz) returns text language sql stable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
    || rtrim(rtrim(to_char(at at time zone 'UTC', '.US'), '0'), '.') || 'Z'
$$;

-- The key of the task of a tick; null: none.
create function schedule_key(s schedules, planned timestamptz) returns text language plpgsql stable as $$
declare
  template text := s.spec ->> 'key';
  plan cron_plan;
begin
  if template is null then
    plan := cron_plan_of(coalesce(s.cron, '* * * * *'));
    template := case when cardinality(plan.minutes) = 1 and cardinality(plan.hours) = 1 then '{name}:{date}'
      else '{name}:{time}' end;
  end if;
  -- The name last: whatever is in it stands.
  template := replace(template, '{date}', to_char(planned at time zone s.zone, 'YYYY-MM-DD'));
  template := replace(template, '{time}', schedule_time_text(planned));
  return nullif(replace(template, '{name}', s.name), '');
end $$;

-- --- ticks -----------------------------------------------------------------------------------------------------------

-- A request id of our own: it begins with its time, so that it is forgotten like others.
create function request_now() returns uuid language sql volatile as $$
  select (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
    || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$;

-- Does what a schedule is for: submits its task under a key, or acts on its queue.
create function schedule_act(s schedules, with_key text, out outcome text, out task_id bigint, out note text)
language plpgsql as $$
declare
  made record;
begin
  note := '';
  if s.queue_action is not null then
    outcome := 'acted';
    select format('queue "%s" is %s', s.action_queue, c.state) into note
    from queue_control(request_now(), s.action_queue, s.queue_action, 'schedule ' || s.name) c;
    return;
  end if;
  select t.* into made from submit_task(
    jsonb_build_object('source', 'schedule ' || s.name) || s.spec || jsonb_build_object('key', with_key)) t;
  task_id := made.id;
  outcome := case when made.existing and not made.restarted then 'existing' else 'submitted' end;
  if made.restarted then
    note := 'its key''s task is run again';
  elsif made.existing then
    note := format('key "%s" is that of an earlier task', with_key);
  end if;
end $$;

-- Runs a schedule by hand, whether or not it is paused, and whatever it says of overlap. It waits for nobody's transaction for
-- long: a key may be that of an application's.
create function schedule_run(request uuid, wanted text, by text)
returns table (run_id bigint, outcome text, task_id bigint, note text, at timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  s schedules;
  run bigint := nextval(pg_get_serial_sequence('schedule_runs', 'id'));
  earlier bigint;
  made record;
  template text;
begin
  select * into s from schedules where name = wanted for no key update;
  earlier := batch_request(request, 'schedule run', run);
  if earlier is not null then
    return query select r.id, r.outcome, r.task_id, r.note, r.at from schedule_runs r where r.id = earlier;
    return;
  end if;
  if s.id is null then
    raise exception using errcode = 'RV404', message = format('there is no schedule "%s"', wanted);
  end if;
  template := s.spec ->> 'key';
  perform set_config('lock_timeout', '1000', true);
  begin
    select * into made from schedule_act(s, case
      when template ~ '\{(name|date|time)\}' or template is null then
        case when octet_length(s.name) <= 255 - 44 then s.name || ':' else '' end || 'manual:' || request -- a key has 255 bytes at most
      else nullif(template, '') end);
  exception when lock_not_available then
    raise exception using errcode = 'RV503',
      message = 'its key, queue or batch is used by a transaction that is not committed yet; try again';
  end;
  insert into schedule_runs (id, schedule_id, outcome, task_id, actor, note) overriding system value
  values (run, s.id, made.outcome, made.task_id, by, made.note);
  -- While the task of a tick lives it is the one that the next may overlap.
  update schedules u set last_task_id = made.task_id,
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = s.id and made.task_id is not null and not exists (select from tasks t where t.id = u.last_task_id);
  return query select r.id, r.outcome, r.task_id, r.note, r.at from schedule_runs r where r.id = run;
end $$;

-- Whether an error is of the kind that passes by itself: a lock that somebody has, a queue that is being stopped, a full disk.
create function schedule_passes(code text) returns boolean language sql immutable as $$
  select code in ('RV503', '40001', '40P01', '55P03') or code ~ '^(53|58)'
$$;

-- Makes one tick of a schedule, whose row is locked. "later": something is in its way that will pass. Nothing: it was made before.
create function schedule_make(s schedules, planned timestamptz, out outcome text, out task_id bigint, out note text)
language plpgsql as $$
declare
  run bigint;
begin
  if s.overlap = 'skip' and exists (select from tasks t where t.id = s.last_task_id) then
    outcome := 'overlapped';
    note := format('task %s of an earlier tick had not ended', s.last_task_id);
  end if;
  insert into schedule_runs (schedule_id, planned_at, outcome, note)
  values (s.id, planned, coalesce(outcome, 'refused'), coalesce(note, ''))
  on conflict do nothing returning id into run;
  if run is null then
    outcome := null;
  elsif outcome is null then
    begin
      select a.outcome, a.task_id, a.note into outcome, task_id, note from schedule_act(s, schedule_key(s, planned)) a;
    exception when others then -- what it did is rolled back
      outcome := case
        when schedule_passes(sqlstate) then 'later'
        when sqlstate <> 'RV409' or s.queue_action is null then 'refused'
        when s.queue_action = 'start' then 'later' -- it is being stopped
        else 'acted' end;                          -- there is nothing to pause or to resume
      note := sqlerrm;
    end;
    if outcome = 'later' then
      delete from schedule_runs where id = run;
    else
      update schedule_runs r set outcome = schedule_make.outcome, task_id = schedule_make.task_id, note = schedule_make.note
      where r.id = run;
    end if;
  end if;
end $$;

-- Makes what a schedule has due now: `seen` is its row as it was found. Whoever changes the row first has its ticks; all others
-- find it changed. Answers what came of each tick.
create function schedule_tick(seen schedules, now timestamptz)
returns table (planned timestamptz, outcome text, task_id bigint, note text) language plpgsql as $$
#variable_conflict use_column
declare
  s schedules := seen;
  last_due timestamptz;
  coming timestamptz;                      -- the first that is not due
  since timestamptz := now - interval '1 minute';
  on_time int;
  most int;
  wanted timestamptz[];
  first timestamptz;
  n bigint;
begin
  perform from schedules where id = seen.id and last_updated = seen.last_updated for no key update skip locked;
  if not found then
    return;
  end if;
  s.retry_at := null;
  coming := schedule_next(s, s.next_at);
  if coming <= now then
    last_due := (schedule_latest(s, s.next_at, now, 1))[1];
    coming := schedule_next(s, last_due);
  else
    last_due := s.next_at; -- one is due, as usual
  end if;
  -- One that is late by more than a minute was missed, unless it had to wait for the last run.
  on_time := (last_due >= since or s.overlap = 'queue' and exists (
    select from task_history h where h.task_id = s.last_task_id and h.last_updated >= since))::int;
  -- Of short intervals several may have come since the last look; none of them was missed for that.
  if s.overlap <> 'queue' then
    on_time := greatest(on_time, cardinality(
      schedule_latest(s, greatest(s.next_at - interval '1us', now - interval '1s'), now, 10)));
  end if;
  most := case s.missed when 'skip' then on_time when 'one' then greatest(on_time, 1) else s.missed_most + on_time end;
  wanted := case when last_due > s.next_at then schedule_latest(s, s.next_at, now, most) else '{}' end;
  if cardinality(wanted) < most then
    wanted := s.next_at || wanted;
  end if;
  if wanted[1] is distinct from s.next_at then
    first := s.next_at;
    s.last_at := coalesce((schedule_latest(s, first, coalesce(wanted[1] - interval '1us', now), 1))[1], first);
    s.next_at := coalesce(wanted[1], coming);
    n := 1 + schedule_count(s, first, s.last_at + interval '1us');
    planned := s.last_at;
    outcome := 'missed';
    note := case when n = 1 then ''
      when n > 1000 and s.cron is not null then format('more than 1000 were missed, from %s on', schedule_time_text(first))
      else format('%s were missed, from %s on', n, schedule_time_text(first)) end;
    insert into schedule_runs (schedule_id, planned_at, outcome, note) values (s.id, planned, outcome, note)
    on conflict do nothing;
    return next;
  end if;
  for place in 1 .. cardinality(wanted) loop
    planned := wanted[place];
    -- The transaction is to be short: what is left comes with the next one. So it does where each waits for the one before.
    exit when place > 20 or place > 1 and s.overlap = 'queue' and exists (select from tasks t where t.id = s.last_task_id);
    select m.* into outcome, task_id, note from schedule_make(s, planned) m;
    if outcome = 'later' then
      s.retry_at := clock_timestamp() + interval '1s';
      return next;
      exit;
    elsif outcome is not null then
      return next;
    end if;
    s.last_at := planned;
    s.last_task_id := coalesce(task_id, s.last_task_id);
    s.next_at := coalesce(wanted[place + 1], coming);
  end loop;
  if s.next_at <= now then
    s.retry_at := coalesce(s.retry_at, clock_timestamp()); -- those that are due already come before the rest of it
  end if;
  update schedules set next_at = s.next_at, last_at = s.last_at, last_task_id = s.last_task_id, retry_at = s.retry_at,
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = s.id;
end $$;

-- Makes ticks that are due, of `most` schedules at most, those that have been due for longest first. Answers what came of each,
-- and how late it was, then a row without a name: when there is something to do next, null if never. It waits for no lock for
-- long, so that it cannot stand in a circle with those who take them in order.
create function schedules_tick(most int)
returns table (schedule_id bigint, schedule text, planned timestamptz, outcome text, task_id bigint, note text, late_us bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  now timestamptz := clock_timestamp();
  look timestamptz;
  due record;
  taken int := 0;
begin
  perform set_config('lock_timeout', '100', true);
  for due in
    select s as seen, (select t.created from tasks t where t.id = s.last_task_id and s.overlap = 'queue') as waits_since
    from schedules s
    where not s.paused and s.next_at is not null and greatest(s.next_at, s.retry_at) <= now
    order by greatest(s.next_at, s.retry_at), s.id
  loop
    if due.waits_since is not null then
      -- The younger the task is that it waits for, the more often it is looked for: not by how late the tick is, or
      -- a schedule that has fallen behind would be looked at the less often for it.
      look := least(look, now + least(greatest((now - due.waits_since) / 8, interval '50ms'), interval '500ms'));
      continue;
    elsif taken = most or clock_timestamp() > now + interval '200ms' then
      look := now;
      exit;
    end if;
    taken := taken + 1;
    begin
      return query
        select (due.seen).id, (due.seen).name, t.planned, t.outcome, t.task_id, t.note,
          (extract(epoch from clock_timestamp() - t.planned) * 1000000)::bigint
        from schedule_tick(due.seen, clock_timestamp()) t;
    exception when others then -- its zone is gone from the database, say
      schedule_id := (due.seen).id;
      schedule := (due.seen).name;
      planned := (due.seen).next_at;
      outcome := 'later';
      note := sqlerrm;
      late_us := (extract(epoch from now - planned) * 1000000)::bigint;
      update schedules
      set retry_at = clock_timestamp() + case when schedule_passes(sqlstate) then interval '1s' else interval '1 minute' end
      where id = any(array(select id from schedules
        where id = (due.seen).id and last_updated = (due.seen).last_updated for no key update skip locked));
      return next;
    end;
  end loop;
  if taken > 0 then
    look := least(look, clock_timestamp() + interval '1s'); -- some may have been locked
  end if;
  schedule_id := 0;
  schedule := '';
  planned := least(look, (select greatest(next_at, retry_at) from schedules
    where not paused and next_at is not null and greatest(next_at, retry_at) > now order by 1 limit 1));
  outcome := '';
  task_id := null;
  note := '';
  late_us := coalesce((extract(epoch from clock_timestamp() - planned) * 1000000)::bigint, 0);
  return next;
end $$;

-- --- definitions: added, edited, paused, resumed, removed ------------------------------------------------------------

-- What was done with definitions, by whom. The runs of one that was removed are found by its name here.
create table schedule_events (
  id bigint generated always as identity primary key,
  schedule_id bigint not null,
  schedule text not null,
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- schedule_added, schedule_edited, _paused, _resumed, _removed
  actor text not null default '',
  note text not null default '');
create index schedule_events_at on schedule_events (at);
create index schedule_events_removed on schedule_events (schedule) where event = 'schedule_removed';

-- Request ids of calls about schedules are taken by batch_request, as those about batches are: what it keeps of a schedule's is
-- its id, or 0 where the call names it.

-- Remembers that something was done with a definition, and tells the managers.
create function schedule_told(s schedules, what text, by text, more text default '') returns void language plpgsql as $$
begin
  insert into schedule_events (schedule_id, schedule, event, actor, note) values (s.id, s.name, what, by, more);
  perform pg_notify('reeve_wake', 'schedules');
end $$;

-- The schedule of a name, locked: whoever ticks waits, and finds last_updated changed.
create function schedule_locked(wanted text) returns schedules language plpgsql as $$
declare
  s schedules;
begin
  select * into s from schedules where name = wanted for no key update;
  if not found then
    raise exception using errcode = 'RV404', message = format('there is no schedule "%s"', wanted);
  end if;
  return s;
end $$;

-- What is wrong with a key; null: nothing.
create function schedule_key_problem(key text, schedule text, by_hand boolean) returns text language sql immutable as $$
  select case
    when substring(key from '\{(?!(?:name|date|time)\})[^{}]*\}') is not null then
      format('has %s; {name}, {date} and {time} are known', substring(key from '\{(?!(?:name|date|time)\})[^{}]*\}'))
    when not by_hand and key !~ '\{(date|time)\}' then
      format('is "%s", the same for all its tasks: only the first would be made; put {date} or {time} into it', key)
    when octet_length(replace(replace(replace(coalesce(key, '{name}:{time}'), '{date}', '2026-01-14'), '{time}', repeat('0', 27)), '{name}',
      schedule)) > 255 then
      'is longer than 255 bytes when name and time are put into it; give a shorter --key' end
$$;

-- Whether the tasks that a schedule describes could be submitted, as far as the database knows; else it raises. What is not in
-- `change` was good when it was given.
create function schedule_task_check(s schedules, change jsonb) returns void language plpgsql as $$
declare
  problem text := schedule_key_problem(s.spec ->> 'key', s.name, s.cron is null and s.every_ms is null);
  b batches;
begin
  if not s.spec ? 'type' and not s.spec ? 'pipeline' then
    raise exception using errcode = 'RV400', message = 'schedule.task.type is empty';
  elsif s.spec ? 'type' and s.spec ? 'pipeline' then
    raise exception using errcode = 'RV400', message = 'schedule.task has both a type and a pipeline';
  elsif s.spec ? 'pipeline' and s.spec ?| array['max_attempts', 'timeout_ms', 'retry_base_ms'] then
    raise exception using errcode = 'RV400', message = format('schedule.task.%s is given with a pipeline, whose stages say that',
      case when s.spec ? 'max_attempts' then 'max_attempts' when s.spec ? 'timeout_ms' then 'timeout_ms' else 'retry' end);
  elsif problem is not null then
    raise exception using errcode = 'RV400', message = 'schedule.task.key ' || problem;
  elsif s.spec ? 'key_ttl_ms' and not s.spec ? 'key' then
    raise exception using errcode = 'RV400', message = 'schedule.task.key_ttl_ms is given without a key';
  end if;
  if s.spec ? 'pipeline' and change ? 'pipeline' then
    perform pipeline_start(s.spec ->> 'pipeline');
  end if;
  if s.spec ? 'batch_id' and change ?| array['batch_id', 'queue'] then
    select * into b from batches where id = (s.spec ->> 'batch_id')::bigint;
    if not found then
      raise exception using errcode = 'RV404', message = format('there is no batch %s', s.spec ->> 'batch_id');
    elsif b.queue <> coalesce(s.spec ->> 'queue', 'default') then
      raise exception using errcode = 'RV400', message = format('batch %s is of queue "%s", the schedule''s tasks of "%s"', b.id,
        b.queue, coalesce(s.spec ->> 'queue', 'default'));
    elsif b.closed_at is not null then
      raise exception using errcode = 'RV409', message = batch_closed(b);
    end if;
  end if;
end $$;

-- A definition with what `change` says, and the rest as it was: any of "cron", "every_ms", "manual" (each ends the others),
-- "zone", "start_us", "missed", "missed_most", "overlap", "queue_action" and "action_queue", and in "task" the members of spec
-- (null: without it). Raises if it makes no sense.
create function schedule_changed(s schedules, change jsonb) returns schedules language plpgsql as $$
declare
  was_every boolean := s.every_ms is not null;
  problem text;
begin
  if change ?| array['cron', 'every_ms', 'manual'] then
    s.cron := change ->> 'cron';
    s.every_ms := (change ->> 'every_ms')::bigint;
    if s.every_ms is not null and not was_every then
      s.start_at := clock_timestamp();
    end if;
  end if;
  if change ? 'start_us' then
    if s.every_ms is null then
      raise exception using errcode = 'RV400', message = 'schedule.start_us is for schedules with every_ms';
    end if;
    s.start_at := timestamptz 'epoch' + interval '1us' * (change ->> 'start_us')::bigint;
    if s.start_at > clock_timestamp() + interval '3650 days' then
      raise exception using errcode = 'RV400', message = 'schedule.start_us lies more than 3650 days ahead';
    end if;
  end if;
  s.missed := coalesce(change ->> 'missed', s.missed);
  s.missed_most := coalesce((change ->> 'missed_most')::int, s.missed_most);
  s.overlap := coalesce(change ->> 'overlap', s.overlap);
  if change ->> 'zone' <> s.zone then
    select z.proper, z.problem into s.zone, problem from zone_find(change ->> 'zone') z;
    if problem is not null then
      raise exception using errcode = 'RV400', message = 'schedule.zone: ' || problem;
    end if;
  end if;
  problem := cron_check(s.cron);
  if problem is not null then
    raise exception using errcode = 'RV400', message = 'schedule.cron: ' || problem;
  end if;
  if change ?| array['queue_action', 'action_queue'] then
    s.queue_action := coalesce(change ->> 'queue_action', s.queue_action);
    s.action_queue := coalesce(change ->> 'action_queue', s.action_queue);
    if s.queue_action is null or s.action_queue is null then
      raise exception using errcode = 'RV400', message = format('schedule.%s is given without the other of the two',
        case when s.queue_action is null then 'action_queue' else 'queue_action' end);
    end if;
    s.spec := null;
  elsif change ? 'task' then
    if s.queue_action is not null and not (change -> 'task') ?| array['type', 'pipeline'] then
      raise exception using errcode = 'RV400', message = 'schedule.task is given, and the schedule acts on a queue';
    end if;
    s.queue_action := null;
    s.action_queue := null;
    s.spec := coalesce(s.spec, '{}');
    if change #>> '{task,type}' is not null and not change -> 'task' ? 'pipeline' then
      s.spec := s.spec - 'pipeline';
    elsif change #>> '{task,pipeline}' is not null and not change -> 'task' ? 'type' then
      s.spec := s.spec - array['type', 'max_attempts', 'timeout_ms', 'retry_base_ms', 'retry_max_ms', 'retry_policy'];
    end if;
    s.spec := jsonb_strip_nulls(s.spec || (change -> 'task'));
  end if;
  if s.spec is not null then
    perform schedule_task_check(s, coalesce(change -> 'task', '{}'));
  end if;
  return s;
end $$;

-- When it comes next after a moment, which is now. Raises if it never does, except where it is by hand only.
create function schedule_planned(s schedules, moment timestamptz) returns timestamptz language plpgsql as $$
declare
  planned timestamptz := schedule_next(s, moment);
begin
  if planned is null and s.cron is not null then
    raise exception using errcode = 'RV400', message = format('schedule.cron: "%s" never comes', s.cron);
  elsif planned is null and s.every_ms is not null then
    raise exception using errcode = 'RV400', message = 'schedule.every_ms: it never comes';
  end if;
  return planned;
end $$;

-- Adds a definition.
create function schedule_add(request uuid, of_name text, change jsonb, by text) returns schedules language plpgsql as $$
declare
  s schedules;
  before bigint;
begin
  s.id := nextval(pg_get_serial_sequence('schedules', 'id'));
  before := batch_request(request, 'schedule_add', s.id);
  if before is not null then
    select * into s from schedules where id = before;
    if not found then
      raise exception using errcode = 'RV404', message = format('schedule "%s" was added, and has been removed since', of_name);
    end if;
    return s;
  end if;
  s.name := of_name;
  s.zone := 'UTC';
  s.missed := 'one';
  s.missed_most := 1;
  s.overlap := 'queue';
  s.start_at := clock_timestamp();
  s := schedule_changed(s, change);
  s.created := clock_timestamp();
  if not change ? 'start_us' then
    s.start_at := s.created; -- so that the first comes an interval later, however long the checks took
  end if;
  s.next_at := schedule_planned(s, s.created);
  insert into schedules (id, name, cron, zone, every_ms, start_at, spec, queue_action, action_queue, missed, missed_most, overlap,
    next_at, source, created, updated)
  overriding system value
  values (s.id, of_name, s.cron, s.zone, s.every_ms, s.start_at, s.spec, s.queue_action, s.action_queue, s.missed, s.missed_most,
    s.overlap, s.next_at, by, s.created, s.created)
  on conflict (name) do nothing returning * into s;
  if not found then
    raise exception using errcode = 'RV440', message = format('there is a schedule "%s" already; edit it, or remove it first', of_name);
  end if;
  perform schedule_told(s, 'schedule_added', by);
  return s;
end $$;

-- Changes one. When it comes is planned anew, from now on, if that is what changes; otherwise nothing of it is lost.
create function schedule_edit(request uuid, of_name text, change jsonb, by text) returns schedules language plpgsql as $$
declare
  s schedules;
  old schedules;
begin
  if batch_request(request, 'schedule_edit', 0) is not null then
    return schedule_locked(of_name);
  end if;
  old := schedule_locked(of_name);
  s := schedule_changed(old, change);
  if (s.cron, s.every_ms, case when s.cron is not null then s.zone end, case when s.every_ms is not null then s.start_at end)
    is distinct from
    (old.cron, old.every_ms, case when s.cron is not null then old.zone end, case when s.every_ms is not null then old.start_at end)
  then
    s.next_at := schedule_planned(s, clock_timestamp());
  end if;
  update schedules set cron = s.cron, zone = s.zone, every_ms = s.every_ms, start_at = s.start_at, spec = s.spec,
    queue_action = s.queue_action, action_queue = s.action_queue, missed = s.missed, missed_most = s.missed_most,
    overlap = s.overlap, next_at = s.next_at, retry_at = null, updated = clock_timestamp(),
    last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
  where id = s.id returning * into s;
  perform schedule_told(s, 'schedule_edited', by, (select string_agg(what, ', ' order by what) from (
    select key as what from jsonb_object_keys(change) key where key <> 'task'
    union all select 'task.' || key from jsonb_object_keys(change -> 'task') key) x));
  return s;
end $$;

-- Pauses, resumes or removes one. A resumed one is planned anew: what would have come meanwhile is not made up for. What is
-- so already stays so. Answers it as it stands, or stood.
create function schedule_control(request uuid, of_name text, action text, by text) returns schedules language plpgsql as $$
declare
  s schedules;
begin
  if batch_request(request, 'schedule_control', 0) is not null then
    select * into s from schedules where name = of_name;
    s.name := of_name;
    return s;
  end if;
  s := schedule_locked(of_name);
  if action = 'remove' then
    delete from schedules where id = s.id;
    perform schedule_told(s, 'schedule_removed', by);
  elsif s.paused <> (action = 'pause') then
    update schedules set paused = action = 'pause', retry_at = null,
      next_at = case when action = 'pause' then next_at else schedule_planned(s, clock_timestamp()) end, updated = clock_timestamp(), last_updated = greatest(clock_timestamp(), last_updated + interval '1us')
    where id = s.id returning * into s;
    perform schedule_told(s, 'schedule_' || action || 'd', by);
  end if;
  return s;
end $$;

-- Definitions as they are shown: with what came of the last run, and the task that the next one waits for.
create view schedules_shown as
  select s.id, s.name, s.cron, s.zone, s.every_ms, s.start_at, s.spec, s.queue_action, s.action_queue, s.missed, s.missed_most,
    s.overlap, s.paused, s.next_at, s.source, s.created, s.updated, r.planned_at as last_planned, r.at as last_at,
    r.outcome as last_outcome, r.task_id as last_task_id,
    case when not s.paused and s.overlap = 'queue' and s.next_at <= statement_timestamp()
      and exists (select from tasks t where t.id = s.last_task_id) then s.last_task_id end as waits_for
  from schedules s
  left join lateral (select * from schedule_runs x where x.schedule_id = s.id order by x.id desc limit 1) r on true;

-- All that have, or had, a name. Raises if there are none.
create function schedule_ids(wanted text) returns bigint[] language plpgsql stable as $$
declare
  ids bigint[] := array(select id from schedules where name = wanted
    union select schedule_id from schedule_events where schedule = wanted and event = 'schedule_removed');
begin
  if ids = '{}' then
    raise exception using errcode = 'RV404', message = format('there is no schedule "%s"', wanted);
  end if;
  return ids;
end $$;
