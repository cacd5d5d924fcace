-- Returns ended attempts since a time, as executions.sql reports them: a part of them, read in about 40 ms. The rows of
-- one hour, queue and type may come several times, and must be added up. The last row has no count; its next_page is
-- where the next page begins (null: there is no more). First come the hour that is being counted and what is not
-- counted yet (raw), then the hours before (hours), then the rest of the hour that contains the start time (first).
--   page: which of these parts, how far the counting had come when the first page was read, where to continue, the span
--   of a step, and since when (in us); the first page uses `since_at`
create or replace function executions_page(of_queue text, of_type text, by_type boolean, since_at timestamptz, page text)
returns table (hour timestamptz, queue text, type text, count bigint, succeeded bigint, total_us numeric, fastest_us bigint,
  slowest_us bigint, last timestamptz, next_page text)
language plpgsql stable set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := statement_timestamp();
  over_at constant timestamptz := clock_timestamp() + interval '40 ms';
  place constant text[] := string_to_array(coalesce(substring(page from '^(?:raw|hours|first)(?:\|-?\d{1,18}){4}$'),
    'new|0|0|4000000|' || time_us(since_at)), '|');
  since constant timestamptz := us_time(place[5]::bigint);
  kept_from constant date := (since at time zone 'UTC')::date;
  whole constant timestamptz := date_trunc('hour', since + interval '1 hour - 1 microsecond', 'UTC');
  with_task constant boolean := by_type or of_queue is not null or of_type is not null;
  part text := place[1];
  until_at timestamptz := us_time(place[2]::bigint);
  from_at timestamptz := us_time(place[3]::bigint);
  step interval := interval '1us' * place[4]::bigint;
  upto timestamptz;
  behind timestamptz;
  looked bigint;
  n record;
begin
  if page is not null and part = 'new' then
    raise exception using errcode = 'RV400', message = format('page "%s" is none that was given', left(page, 100));
  end if;
  if part = 'new' then
    select r.until into until_at from executions_rolled r;
    from_at := greatest(since, until_at);
  end if;
  loop
    if part = 'new' or part = 'hours' then
      upto := case part when 'new' then date_trunc('hour', until_at, 'UTC') else from_at end;
      return query
      select case when not by_type then x.hour end, case when by_type then x.queue end, case when by_type then x.type end,
        sum(x.count)::bigint, sum(x.succeeded)::bigint, sum(x.total_us), min(x.fastest_us), max(x.slowest_us), max(x.last), null::text
      from executions x
      where x.hour = upto and x.hour >= whole and (of_queue is null or x.queue = of_queue) and (of_type is null or x.type = of_type)
      group by 1, 2, 3;
      if part = 'new' then
        part := 'raw';
        continue; -- a page has at least one stretch
      else
        from_at := (select max(x.hour) from executions x where x.hour < upto and x.hour >= whole);
        part := case when from_at is null then 'first' else part end;
      end if;
    else
      behind := case part when 'raw' then 'infinity' else least(whole, until_at) end;
      upto := case when from_at + step >= least(behind, now_at) then behind else from_at + step end;
      if step > interval '1 ms' then
        select count(*) into looked from (select from executions_raw(from_at, upto, kept_from, false) limit 10001) x;
        if looked > 10000 then -- too many ended in this span for one page
          step := greatest(least(step, least(behind, now_at) - from_at) / 8, interval '1 ms');
          continue;
        end if;
      end if;
      looked := 0;
      for n in
        select case when not by_type then date_trunc('hour', e.ended, 'UTC') end as hour, case when by_type then e.queue end as queue,
          case when by_type then e.type end as type, count(*) filter (where e.wanted) as count,
          count(*) filter (where e.wanted and e.well) as succeeded, sum(e.us) filter (where e.wanted) as total_us,
          min(e.us) filter (where e.wanted) as fastest_us, max(e.us) filter (where e.wanted) as slowest_us,
          max(e.ended) filter (where e.wanted) as last, count(*) as looked
        from (
          select r.*, (of_queue is null or r.queue = of_queue) and (of_type is null or r.type = of_type) as wanted
          from executions_raw(from_at, upto, kept_from, with_task) r) e
        group by 1, 2, 3
      loop
        looked := looked + n.looked;
        if n.count > 0 then
          hour := n.hour;
          queue := n.queue;
          type := n.type;
          count := n.count;
          succeeded := n.succeeded;
          total_us := n.total_us;
          fastest_us := n.fastest_us;
          slowest_us := n.slowest_us;
          last := n.last;
          return next;
        end if;
      end loop;
      from_at := upto;
      if looked < 2500 then
        step := least(step * case when looked < 500 then 16 else 4 end, interval '1 hour');
      end if;
      if part = 'raw' and from_at >= behind then
        from_at := (select max(x.hour) from executions x where x.hour < date_trunc('hour', until_at, 'UTC') and x.hour >= whole);
        part := case when from_at is null then 'first' else 'hours' end;
      elsif part = 'first' and from_at >= behind then
        exit;
      end if;
    end if;
    if part = 'first' and from_at is null then
      from_at := since;
      step := interval '4 s'; -- the stretches before do not show how much there is
      exit when since >= least(whole, until_at);
    end if;
    if clock_timestamp() > over_at then
      next_page := concat_ws('|', part, time_us(until_at), time_us(from_at), (extract(epoch from step) * 1000000)::bigint, time_us(since));
      exit;
    end if;
  end loop;
  count := null;
  return next;
end $$;
