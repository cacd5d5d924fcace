-- Returns a page of events since a time: tasks, workers, queues, schedules and identities together. It covers a span of time with
-- about `most` rows of each kind, and takes up to about 50 ms. `page` is where it begins (null: at `since`). The last
-- row has no event; its next_page is where the next page begins (null: there is no more). Submits are read by id,
-- everything else by the time it was written. So the events of a page are in order, but the claim of an attempt is on
-- the page of its end, and a submit that took long may be on a later page.
-- Only events that the last parameters select are returned (null: all), of as many rows as without them.
--   page: since when, and where it begins, in us; the id after which submits are read; the span of the last step, in us
-- The settings forbid sequential scans, whatever the statistics say.
create or replace function audit_page(page text, since timestamptz, most int, of_queue text, of_type text, of_events text[],
  of_worker text, of_actor text)
returns table (at timestamptz, task_id bigint, version timestamptz, event text, worker text, worker_id bigint, attempt smallint,
  actor text, note text, next_page text)
language plpgsql stable set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  now_at constant timestamptz := statement_timestamp();
  begun constant timestamptz := clock_timestamp();
  place bigint[] := string_to_array(page, ':')::bigint[];
  since_at timestamptz := coalesce(us_time(place[1]), since);
  from_at timestamptz := coalesce(us_time(place[2]), since_at);
  behind timestamptz;       -- the page ends before this time
  after_id bigint := coalesce(place[3], submitted_after(since_at));
  step bigint := least(greatest(coalesce(place[4], 1000000), 1), 864000000000);
  newer_ids bigint;         -- how many submits there are, counted up to `most` + 1
  last_id bigint;           -- the last of these
  last_created timestamptz;
  catching boolean;         -- submits must catch up: ids and times of simultaneous ones may be in different orders
  stop_id bigint;           -- the first submit after this page
  reached timestamptz;
  upto timestamptz;
  found_rows bigint := 0;
  n bigint;
begin
  if cardinality(place) <> 4 or from_at is null or after_id is null then
    raise exception using errcode = 'RV400', message = format('page "%s" is not the next_page of an answer', left(page, 100));
  end if;
  behind := least(now_at,
    (select last_updated from task_attempts where last_updated >= from_at order by last_updated offset most limit 1),
    (select at from task_events where at >= from_at order by at offset most limit 1),
    (select at from worker_events where at >= from_at order by at offset most limit 1),
    (select at from queue_events where at >= from_at order by at offset most limit 1),
    (select at from schedule_events where at >= from_at order by at offset most limit 1),
    (select at from identity_events where at >= from_at order by at offset most limit 1));
  select count(*), max(id), (array_agg(created order by id desc))[1] into newer_ids, last_id, last_created
  from (select id, created
    from ((select id, created from tasks where id > after_id order by id limit most + 1)
      union all
      (select task_id, created from task_history where task_id > after_id order by task_id limit most + 1)) x
    order by id limit most + 1) s;
  catching := newer_ids > most and last_created <= from_at;
  if catching then
    behind := from_at;
  else
    behind := greatest(least(behind, case when newer_ids > most then last_created end),
      from_at + interval '1us'); -- events of the same instant are on one page
  end if;

  -- How far the page comes with `most` rows of the history.
  reached := from_at;
  while reached < behind loop
    upto := least(reached + interval '1us' * step, behind);
    select count(*) into n
    from (select from task_history
      where last_updated >= reached and last_updated < upto and keep_until >= (reached at time zone 'UTC')::date
      limit most + 1 - found_rows) h;
    if found_rows + n > most and step > 1 and found_rows = 0 then
      step := greatest(step / 16, 1);
    elsif found_rows + n > most and found_rows > 0 then
      exit;
    else
      found_rows := found_rows + n;
      reached := upto;
      if n * 8 < most and upto < behind then
        step := least(step * 8, 864000000000);
      end if;
      exit when found_rows >= most;
    end if;
    exit when reached > from_at and clock_timestamp() > begun + interval '40 ms';
  end loop;
  behind := reached;

  select min(id) into stop_id
  from (select id, created
    from ((select id, created from tasks where id > after_id order by id limit most + 1)
      union all
      (select task_id, created from task_history where task_id > after_id order by task_id limit most + 1)) x
    order by id limit most + 1) s
  where not catching and created >= greatest(behind, from_at + interval '1us') or newer_ids > most and id = last_id;

  return query
  with ended as materialized (
    select * from task_history
    where last_updated >= from_at and last_updated < behind and keep_until >= (from_at at time zone 'UTC')::date),
  tried as materialized (
    select a.task_id, a.token, a.last_updated, a.status, a.outcome, a.worker_id, a.attempt, a.assignment_id, a.by_report, a.error_code, a.error,
      coalesce(a.queue, t.queue) as queue, coalesce(a.type, t.type) as type
    from task_attempts a
    left join lateral (
      select x.queue, x.type from all_tasks x
      where (of_queue is not null or of_type is not null) and a.queue is null and x.id = a.task_id limit 1) t on true
    where a.last_updated >= from_at and a.last_updated < behind)
  select e.at, e.task_id, e.version, e.event, w.name, e.worker_id, e.attempt, o.actor, left(e.note, 300), null::text
  from (
    -- The version of a late or refused result is its attempt's token, but it may have come after the event that had ended that
    -- attempt.
    select *, case when event in ('late_result', 'result_refused') then greatest(at, version) else version end as turn from (
    select created as at, id as task_id, created as version, 0 as place, 'submitted' as event, null::bigint as worker_id,
      null::smallint as attempt, source as actor, '' as note, queue, type
    from (
      (select id, created, source, queue, type from tasks where id > after_id and id < coalesce(stop_id, last_id + 1) order by id limit most + 1)
      union all
      (select task_id, created, source, queue, type from task_history
       where task_id > after_id and task_id < coalesce(stop_id, last_id + 1) order by task_id limit most + 1)) s
    where created >= since_at
    union all
    select t.last_updated, t.id, t.last_updated, 1, 'claimed', t.worker_id, t.attempt, null, 'assignment ' || t.assignment_id, t.queue, t.type
    from (select a.id, a.task_ids from assignments a
      where a.closed_at is null and a.at >= from_at - interval '1 minute' and a.at < behind + interval '1 minute' offset 0) a
    cross join lateral unnest(a.task_ids) x(id)
    cross join lateral (
      select t.* from tasks t
      where t.id = x.id and t.assignment_id = a.id and t.status = 'executing' and t.last_updated >= from_at
        and t.last_updated < behind
      offset 0) t
    union all
    select h.token, h.task_id, h.token, 1, 'claimed', h.worker_id, h.attempt, null, 'assignment ' || h.assignment_id, h.queue, h.type
    from ended h where h.token >= since_at
    union all
    select h.last_updated, h.task_id, h.last_updated, 2, h.status, h.worker_id, case when h.token is not null then h.attempt end,
      case when h.by_report then (
        select v.actor from task_events v where v.task_id = h.task_id and v.version = h.token and v.event = 'reported' order by v.id desc limit 1)
        else '' end,
      case when h.status <> 'completed' then concat_ws(': ', h.error_code, h.last_error) else '' end, h.queue, h.type
    from ended h
    union all
    select a.token, a.task_id, a.token, 1, 'claimed', a.worker_id, a.attempt, null, 'assignment ' || a.assignment_id, a.queue, a.type
    from tried a where a.token >= since_at
    union all
    select a.last_updated, a.task_id, a.last_updated, 2,
      case when a.status in ('completed', 'dead', 'cancelled') then a.status else a.outcome end,
      a.worker_id, a.attempt, case when a.by_report then (
        select v.actor from task_events v where v.task_id = a.task_id and v.version = a.token and v.event = 'reported' order by v.id desc limit 1)
        else '' end,
      concat_ws(': ', a.error_code, a.error), a.queue, a.type
    from tried a
    union all
    select v.at, v.task_id, v.version, 3, v.event, v.worker_id, null, v.actor, v.note, t.queue, t.type
    from task_events v
    left join lateral (
      select x.queue, x.type from all_tasks x where (of_queue is not null or of_type is not null) and x.id = v.task_id limit 1) t on true
    where v.at >= from_at and v.at < behind
    union all
    select at, 0, at, 0, event, worker_id, null, actor, note, null, null from worker_events where at >= from_at and at < behind
    union all
    select at, 0, at, 0, event, null, null, actor, concat_ws(': ', 'queue ' || queue, nullif(note, '')), queue, null
    from queue_events where at >= from_at and at < behind
    union all
    select at, 0, at, 0, event, null, null, actor, concat_ws(': ', 'schedule ' || schedule, nullif(note, '')), null, null
    from schedule_events where at >= from_at and at < behind
    union all
    select at, 0, at, 0, event, null, null, actor, concat_ws(': ', identity, nullif(note, '')), null, null
    from identity_events where at >= from_at and at < behind) x) e
  left join workers w on w.id = e.worker_id
  cross join lateral (select coalesce(e.actor, w.actor, '') as actor) o -- as in audit_log
  where (of_queue is null or e.queue = of_queue) and (of_type is null or e.type = of_type)
    and (of_events is null or e.event = any(of_events)) and (of_worker is null or w.name = of_worker)
    and (of_actor is null or o.actor = of_actor or starts_with(o.actor, of_actor || '/') or starts_with(o.actor, of_actor || '@'))
  -- By time, but the events of a task in the order of its versions, whatever clocks showed.
  order by max(greatest(e.at, e.version)) over (partition by e.task_id order by e.turn, e.place, e.at), e.task_id, e.turn, e.place, e.at;

  return query
  select null::timestamptz, null::bigint, null::timestamptz, null::text, null::text, null::bigint, null::smallint, null::text,
    null::text, case when behind < now_at or newer_ids > most and stop_id = last_id
      then concat_ws(':', time_us(since_at), time_us(behind), coalesce(stop_id - 1, last_id, after_id), step) end;
end $$;
