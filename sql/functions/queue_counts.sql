-- Returns how many live tasks each queue and type has, and since when the first due one is due. A page has the numbers
-- of up to 10,000 routes, so that few pages add up the counts, or of those that fit into `most_bytes`, and each
-- oldest_due that is found within 50 ms. The others come on further pages, in rows that have nothing else. If there is
-- another page, the last row has no queue, and its next_page is where that page begins.
--   page: the route whose first due task is searched next, the priority in it from which on (empty: the highest), and
--   the route up to which (exclusive) the numbers have come
create or replace function queue_counts(of_queue text, page text, most_bytes bigint)
returns table (queue text, type text, queued bigint, delayed bigint, executing bigint, failed bigint, oldest_due timestamptz,
  next_page text)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  over_at timestamptz;      -- set at the first row, for which the counts of all are added up
  place constant text[] := string_to_array(page, '|');
  next_route int := coalesce(place[1], '0')::int;
  level int := nullif(place[2], '')::int;
  counted constant int := coalesce(place[3], '0')::int;
  counts constant boolean := next_route >= counted;
  most constant int := 10000;
  no_more constant int := 2147483647;
  searching boolean := true;
  room bigint := most_bytes;
  n int := 0;
  last_id int;
  upto int;
  way record;
begin
  if cardinality(place) <> 3 then
    raise exception using errcode = 'RV400', message = format('page "%s" is not the next_page of an answer', left(page, 100));
  end if;
  for way in
    select r.id, r.queue, r.type, c.queued, c.delayed, c.executing, c.failed
    from routes r left join (select * from live_totals(of_queue) where counts) c on c.route_id = r.id
    where r.retired is null and (of_queue is null or r.queue = of_queue) and r.id >= next_route and (counts or r.id < counted)
    order by r.id limit most
  loop
    over_at := coalesce(over_at, clock_timestamp() + interval '50 ms');
    n := n + 1;
    last_id := way.id;
    queue := way.queue;
    type := way.type;
    queued := coalesce(way.queued, 0);
    delayed := coalesce(way.delayed, 0);
    executing := coalesce(way.executing, 0);
    failed := coalesce(way.failed, 0);
    oldest_due := null;
    -- A task that was submitted just now may be due by the clock, but counts as delayed for the rest of the second.
    if searching and (not counts or queued + failed + delayed > 0) then
      level := coalesce(level, (select t.priority from tasks t where t.lane is null and t.route_id = way.id
        order by t.priority desc limit 1));
      while level is not null loop
        oldest_due := least(oldest_due, (select t.run_at from tasks t
          where t.lane is null and t.route_id = way.id and t.priority = level and t.run_at <= statement_timestamp()
            and t.status in ('queued', 'failed')
          order by t.priority desc, t.run_at, t.id + 0 limit 1));
        level := (select t.priority from tasks t where t.lane is null and t.route_id = way.id and t.priority < level
          order by t.priority desc limit 1);
        exit when clock_timestamp() >= over_at;
      end loop;
    end if;
    if counts or oldest_due is not null then
      room := room - 100 - octet_length(queue) - octet_length(type); -- 100: the numbers
      return next;
    end if;
    if searching then
      next_route := case when level is null then way.id + 1 else way.id end;
      searching := level is null and clock_timestamp() < over_at;
      exit when not searching and not counts;
    end if;
    exit when room <= 0;
  end loop;
  upto := case when not counts then counted when n = most or room <= 0 then last_id + 1 else no_more end;
  if searching and (counts or room > 0) then
    next_route := upto;
  end if;
  if next_route < no_more then
    queue := null;
    next_page := concat_ws('|', next_route, coalesce(level::text, ''), upto);
    return next;
  end if;
end $$;
