-- Returns ended attempts since a time, as executions.sql reports them: a part of them, read in about 40 ms, that fits
-- into `most_bytes`. The rows of one hour, queue and type may come several times, and must be added up. The last row has
-- no count; its next_page is where the next page begins (null: there is no more). First come the hour that is being
-- counted and what is not counted yet (raw), then the hours before (hours), then the rest of the hour that contains the
-- start time (first). If the rows of the hour that is being counted take more than half a page, they are not used, because
-- they change between two pages: its attempts are read as not counted yet.
--   of_well: only those that completed (true), or that did not (false); null: all
--   page: which of these parts, how far the counting had come when the first page was read, where to continue, the span
--   of a step, since when (in us), and how many rows of the hour earlier pages had; the first page uses `since_at`
create or replace function executions_page(of_queue text, of_type text, of_well boolean, by_type boolean, since_at timestamptz,
  page text, most_bytes bigint)
returns table (hour timestamptz, queue text, type text, count bigint, completed bigint, total_us numeric, fastest_us bigint,
  slowest_us bigint, last timestamptz, last_us bigint, next_page text)
language plpgsql stable set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := statement_timestamp();
  over_at constant timestamptz := clock_timestamp() + interval '40 ms';
  place constant text[] := string_to_array(coalesce(substring(page from '^(?:raw|hours|first)(?:\|-?\d{1,18}){5}$'),
    'new|0|0|4000000|' || time_us(since_at) || '|0'), '|');
  since constant timestamptz := us_time(place[5]::bigint);
  kept_from constant date := (since at time zone 'UTC')::date;
  whole constant timestamptz := date_trunc('hour', since + interval '1 hour - 1 microsecond', 'UTC');
  with_task constant boolean := by_type or of_queue is not null or of_type is not null;
  part text := place[1];
  until_at timestamptz := us_time(place[2]::bigint);
  from_at timestamptz := us_time(place[3]::bigint);
  step interval := least(greatest(interval '1us' * place[4]::bigint, interval '1us'), interval '1 hour');
  passed int := place[6];
  most constant int := 10000;
  room bigint := most_bytes;
  full_page boolean;
  upto timestamptz;
  behind timestamptz;
  rows_read bigint;
  sent int := 0;
  rows bigint;
  bytes bigint;
begin
  if page is not null and part = 'new' then
    raise exception using errcode = 'RV400', message = format('page "%s" is not the next_page of an answer', left(page, 100));
  end if;
  if part = 'new' then
    select r.until into until_at from executions_rolled r;
    from_at := greatest(since, until_at);
  end if;
  loop -- over the stretches; one that does not fit is read again: a shorter part of it, or on the next page
    full_page := false;
    if part = 'new' or part = 'hours' then
      upto := case part when 'new' then date_trunc('hour', until_at, 'UTC') else from_at end;
      if part = 'new' and by_type then
        select count(*), coalesce(sum(100 + octet_length(x.queue) + octet_length(x.type)), 0) into rows, bytes
        from (select * from executions x
          where x.hour = upto and x.hour >= whole and (of_queue is null or x.queue = of_queue)
            and (of_type is null or x.type = of_type) and (of_well is null or x.well = of_well)
          limit most + 1) x;
        if rows > most or bytes > most_bytes / 2 then
          until_at := upto;
          from_at := greatest(since, until_at);
          part := 'raw';
          continue;
        end if;
      end if;
      for hour, queue, type, count, completed, total_us, fastest_us, slowest_us, last, last_us in
        (select null::timestamptz as hour, x.queue, x.type, x.count, case when x.well then x.count else 0 end, x.total_us::numeric,
           x.fastest_us, x.slowest_us, x.last, x.last_us
         from executions x
         where by_type and x.hour = upto and x.hour >= whole and (of_queue is null or x.queue = of_queue)
           and (of_type is null or x.type = of_type) and (of_well is null or x.well = of_well)
         order by x.hour, x.queue, x.type, x.well offset passed limit most + 1)
        union all
        select upto, null, null, sum(x.count)::bigint, coalesce(sum(x.count) filter (where x.well), 0)::bigint, sum(x.total_us),
          min(x.fastest_us), max(x.slowest_us), max(x.last), (max(array[time_us(x.last), x.last_us]))[2]
        from executions x
        where not by_type and x.hour = upto and x.hour >= whole and (of_queue is null or x.queue = of_queue)
          and (of_type is null or x.type = of_type) and (of_well is null or x.well = of_well)
        having count(*) > 0
      loop
        full_page := sent = most or room <= 0;
        exit when full_page;
        return next;
        sent := sent + 1;
        passed := passed + by_type::int;
        room := room - 100 - coalesce(octet_length(queue) + octet_length(type), 0); -- 100: the numbers
      end loop;
      if part = 'new' then
        part := 'raw';
        passed := 0;
        continue; -- a page has at least one stretch
      elsif not full_page then
        from_at := (select max(x.hour) from executions x where x.hour < upto and x.hour >= whole);
        part := case when from_at is null then 'first' else part end;
        passed := 0;
      end if;
    else
      behind := case part when 'raw' then 'infinity' else least(whole, until_at) end;
      upto := case when from_at + step >= least(behind, now_at) then behind else from_at + step end;
      if step > interval '1 ms' then
        select count(*) into rows_read from (select from executions_raw(from_at, upto, kept_from, false) limit 10001) x;
        if rows_read > 10000 then -- too many ended in this span for one page
          step := greatest(least(step, least(behind, now_at) - from_at) / 8, interval '1 ms');
          continue;
        end if;
      end if;
      rows_read := 0;
      for hour, queue, type, count, completed, total_us, fastest_us, slowest_us, last, last_us, rows, bytes in
        select g.*,
          coalesce(sum(100 + coalesce(octet_length(g.queue) + octet_length(g.type), 0)) filter (where g.count > 0) over (), 0) as bytes
        from (
          select case when not by_type then date_trunc('hour', e.ended, 'UTC') end as hour, case when by_type then e.queue end as queue,
            case when by_type then e.type end as type, count(*) filter (where e.wanted) as count,
            count(*) filter (where e.wanted and e.well) as completed, sum(e.us) filter (where e.wanted) as total_us,
            min(e.us) filter (where e.wanted) as fastest_us, max(e.us) filter (where e.wanted) as slowest_us,
            max(e.ended) filter (where e.wanted) as last,
            (max(array[time_us(e.ended), e.us]) filter (where e.wanted))[2] as last_us, count(*) as rows
          from (
            select r.*, (of_queue is null or r.queue = of_queue) and (of_type is null or r.type = of_type)
              and (of_well is null or r.well = of_well) as wanted
            from executions_raw(from_at, upto, kept_from, with_task) r) e
          group by 1, 2, 3) g
      loop
        full_page := bytes > room and (room < most_bytes or step > interval '1us');
        exit when full_page;
        rows_read := rows_read + rows;
        if count > 0 then
          return next;
        end if;
      end loop;
      if full_page and room = most_bytes then
        step := greatest(least(step, least(behind, now_at) - from_at) / 8, interval '1us');
        continue;
      elsif not full_page then
        room := room - coalesce(bytes, 0); -- null: there was nothing
        from_at := upto;
        if rows_read < 2500 then
          step := least(step * case when rows_read < 500 then 16 else 4 end, interval '1 hour');
        end if;
        if part = 'raw' and from_at >= behind then
          from_at := (select max(x.hour) from executions x where x.hour < date_trunc('hour', until_at, 'UTC') and x.hour >= whole);
          part := case when from_at is null then 'first' else 'hours' end;
        elsif part = 'first' and from_at >= behind then
          exit;
        end if;
      end if;
    end if;
    if part = 'first' and from_at is null then
      from_at := since;
      step := interval '4 s'; -- the stretches before do not show how much there is
      exit when since >= least(whole, until_at);
    end if;
    if full_page or room <= 0 or clock_timestamp() > over_at then
      next_page := concat_ws('|', part, time_us(until_at), time_us(from_at), (extract(epoch from step) * 1000000)::bigint,
        time_us(since), passed);
      exit;
    end if;
  end loop;
  count := null;
  return next;
end $$;
