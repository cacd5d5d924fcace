-- Listings that page by key, and take as long whatever there is: what serves them.

-- Those that live, by number, beside all that have been. Heartbeats do not touch it. Who asks for them by number says that
-- `registered is not null`, which is always so: a statement that looks for a name must not be planned with this index.
create index workers_here on workers (id) where gone_at is null and registered is not null;

-- The callbacks that were not delivered, newest first: of a batch, and of all. The first takes the place of one without ids.
drop index callbacks_open;
create index callbacks_open on callbacks (batch_id, state, id) where state <> 'delivered';
create index callbacks_undelivered on callbacks (state, id) where state <> 'delivered';

-- As before; of the callbacks that wait, or were given up, the first 1,000 are counted.
create or replace view batches_shown as
  select b.id, b.name, b.queue, b.implicit,
    case when b.phase = 'ended' then 'ended' when b.closed_at is not null then 'closed' else 'open' end as state,
    b.phase, b.submitted, b.pending, b.success, b.failed, b.created, b.started_at, b.closed_at, b.ended_at,
    took.ms as duration_ms,
    case when b.phase = 'new' then -1 when b.pending = 0 then 0 when b.success + b.failed = 0 then -1
      else took.ms * b.pending / (b.success + b.failed) end as remaining_ms,
    b.entry_id, b.entry_status, b.exit_id, b.exit_status, b.source,
    (select count(*) from (select from callbacks c where c.batch_id = b.id and c.state = 'waiting' limit 1000) x)
      as callbacks_waiting,
    (select count(*) from (select from callbacks c where c.batch_id = b.id and c.state = 'given_up' limit 1000) x)
      as callbacks_given_up
  from batches b cross join lateral (
    select coalesce(extract(epoch from coalesce(b.ended_at, clock_timestamp()) - b.started_at) * 1000, 0)::bigint as ms) took;

-- What went wrong since a time, the latest first: a stretch of it, for about 50 ms, about `most` attempts and as many dead
-- tasks, and `most_bytes` of their errors, but one at least. Attempts that failed, with the tasks that wait after them, and tasks
-- that ended dead, in groups by text and code, which may come several times. `latest` has the time and the task of the last.
-- The last row has no error, but tells where the next page begins (null: there is no more).
--   page: since when, and before which time it goes on (in us); the first page goes by `since`
create function errors_page(of_queue text, of_type text, since_at timestamptz, page text, most int, most_bytes bigint)
returns table (error text, code text, attempts bigint, waiting bigint, dead bigint, first timestamptz, last timestamptz,
  latest bigint[], next_page text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  over_at constant timestamptz := clock_timestamp() + interval '50 ms';
  since constant timestamptz := coalesce(us_time(substring(page from '^(-?\d{1,18})\|')::bigint), since_at);
  kept_from constant date := (since at time zone 'UTC')::date; -- no task that ended dead since then may go before that day
  behind timestamptz := coalesce(us_time(substring(page from '\|(-?\d{1,18})$')::bigint), 'infinity');
  edge timestamptz;
  chunk int := 100;
  room bigint := most_bytes;
  n record;
begin
  if page !~ '^-?\d{1,18}\|-?\d{1,18}$' then
    raise exception using errcode = 'RV400', message = format('page "%s" is none that was given', left(page, 100));
  end if;
  loop
    -- Down to where this stretch goes: what has the same time stays together.
    select coalesce(max(at) filter (where place = chunk or bytes >= room / 2), since) as edge, coalesce(sum(size), 0) as size into n
    from (
      select at, size, row_number() over w as place, sum(size) over w as bytes
      from (
        (select 1 as kind, a.last_updated as at, coalesce(octet_length(a.error), 0) as size from task_attempts a
         where a.last_updated >= since and a.last_updated < behind order by a.last_updated desc limit chunk)
        union all
        (select 2, h.last_updated, coalesce(octet_length(h.last_error), 0) from task_history h
         where h.status = 'dead' and h.last_updated >= since and h.last_updated < behind and h.keep_until >= kept_from
         order by h.last_updated desc limit chunk)) x
      window w as (partition by kind order by at desc rows unbounded preceding)) x;
    edge := n.edge;
    return query
    select x.error, x.code, sum(x.attempts)::bigint, sum(x.waiting)::bigint, sum(x.dead)::bigint, min(x.at), max(x.at),
      max(array[time_us(x.at), x.task_id]), null::text
    from (
      select coalesce(a.error, '') as error, coalesce(a.error_code, '') as code, a.last_updated as at, a.task_id,
        1 as attempts, 0 as dead,
        (a.status = 'failed' and exists (select from tasks w where w.id = a.task_id and w.status = 'failed' and w.started = a.token))::int
          as waiting
      from task_attempts a
      left join lateral (
        select t.queue, t.type from all_tasks t
        where a.queue is null and (of_queue is not null or of_type is not null) and t.id = a.task_id limit 1) t on true
      where a.last_updated >= edge and a.last_updated < behind
        and (a.outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
          or a.outcome in ('lease_ended', 'taken_back') and a.status in ('failed', 'dead'))
        and (of_queue is null or coalesce(a.queue, t.queue) = of_queue) and (of_type is null or coalesce(a.type, t.type) = of_type)
      union all
      select coalesce(h.last_error, ''), coalesce(h.error_code, ''), h.last_updated, h.task_id, (h.token is not null)::int, 1, 0
      from task_history h
      where h.status = 'dead' and h.last_updated >= edge and h.last_updated < behind and h.keep_until >= kept_from
        and (of_queue is null or h.queue = of_queue) and (of_type is null or h.type = of_type)) x
    group by x.error, x.code;
    behind := edge;
    most := most - chunk;
    room := room - n.size;
    exit when edge <= since or most <= 0 or room <= 0 or clock_timestamp() > over_at;
    chunk := least(chunk * 2, 2000);
  end loop;
  return query select null::text, null::text, null::bigint, null::bigint, null::bigint, null::timestamptz, null::timestamptz,
    null::bigint[], case when edge > since then concat_ws('|', time_us(since), time_us(edge)) end;
end $$;

-- Attempts that ended since a time, as executions.sql tells of them: a part of them, for about 50 ms. What is of one hour, queue
-- and type may come several times, and is to be added up. The last row has no count, but tells where the next page begins (null:
-- there is no more). First come the hour that is being counted and what has not been counted (raw), then the hours before (hours),
-- then what is left of the hour in which that time lies (first).
--   page: which of these, how far the counting had come when the first page was read, from where on it goes, how long a stretch
--   is looked at, and since when (in us); the first page goes by `since_at`
create function executions_page(of_queue text, of_type text, by_type boolean, since_at timestamptz, page text)
returns table (hour timestamptz, queue text, type text, count bigint, completed bigint, total_us numeric, fastest_us bigint,
  slowest_us bigint, last timestamptz, next_page text)
language plpgsql stable set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := statement_timestamp();
  over_at constant timestamptz := clock_timestamp() + interval '50 ms';
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
        sum(x.count)::bigint, sum(x.completed)::bigint, sum(x.total_us), min(x.fastest_us), max(x.slowest_us), max(x.last), null::text
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
      looked := 0;
      for n in
        select case when not by_type then date_trunc('hour', e.ended, 'UTC') end as hour, case when by_type then e.queue end as queue,
          case when by_type then e.type end as type, count(*) filter (where e.wanted) as count,
          count(*) filter (where e.wanted and e.well) as completed, sum(e.us) filter (where e.wanted) as total_us,
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
          completed := n.completed;
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
      elsif looked > 20000 then
        step := greatest(step / 4, interval '1 ms');
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
      step := interval '4 s'; -- how much there is, the stretches before do not tell
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
