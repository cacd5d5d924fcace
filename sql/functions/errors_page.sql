-- Returns errors since a time, the latest first: failed attempts, with the tasks that wait for a retry after them, and
-- dead tasks, in groups by message and code. A group may come several times. A page takes about 50 ms, and has about
-- `most` attempts and as many dead tasks, with about `most_bytes` of errors and codes, but at least one. `latest` has
-- the time and the task of a group's last error. The last row has no error; its next_page is where the next page begins
-- (null: there is no more).
--   page: since when, and the time before which it continues (in us); the first page uses `since_at`
create or replace function errors_page(of_queue text, of_type text, since_at timestamptz, page text, most int, most_bytes bigint)
returns table (error text, code text, attempts bigint, waiting bigint, dead bigint, first timestamptz, last timestamptz,
  latest bigint[], next_page text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  over_at constant timestamptz := clock_timestamp() + interval '50 ms';
  since constant timestamptz := coalesce(us_time(substring(page from '^(-?\d{1,18})\|')::bigint), since_at);
  kept_from constant date := (since at time zone 'UTC')::date; -- no task dead since then is deleted before this day
  behind timestamptz := coalesce(us_time(substring(page from '\|(-?\d{1,18})$')::bigint), 'infinity');
  edge timestamptz;
  began timestamptz; -- when this stretch began
  chunk int := 100;
  room bigint := most_bytes;
  n record;
begin
  if page !~ '^-?\d{1,18}\|-?\d{1,18}$' then
    raise exception using errcode = 'RV400', message = format('page "%s" is not the next_page of an answer', left(page, 100));
  end if;
  loop
    began := clock_timestamp();
    -- The lower end of this stretch: rows of the same time stay together.
    select coalesce(max(at) filter (where place = chunk or bytes >= room / 2), since) as edge, coalesce(sum(size), 0) as size into n
    from (
      select at, size, row_number() over w as place, sum(size) over w as bytes
      from (
        (select 1 as kind, a.last_updated as at, 100 + octet_length(concat(a.error, a.error_code)) as size
         from task_attempts a
         where a.last_updated >= since and a.last_updated < behind order by a.last_updated desc limit chunk)
        union all
        (select 2, h.last_updated, 100 + octet_length(concat(h.last_error, h.error_code)) from task_history h
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
          or a.outcome in ('lease_ended', 'requeued') and a.status in ('failed', 'dead'))
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
    exit when edge <= since or most <= 0 or room <= 0 or clock_timestamp() + 2 * (clock_timestamp() - began) > over_at;
    chunk := least(chunk * 2, 2000);
  end loop;
  return query select null::text, null::text, null::bigint, null::bigint, null::bigint, null::timestamptz, null::timestamptz,
    null::bigint[], case when edge > since then concat_ws('|', time_us(since), time_us(edge)) end;
end $$;
