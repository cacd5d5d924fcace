-- After the clock was set back from `passed_at`: tasks that became due in the time that comes again count as delayed again. Else
-- they would be subtracted twice: when that time passed, and when they end, by their due time. Reads all live tasks; if there are
-- very many, the border between queued and delayed is not exact until the clock shows that time again.
create or replace function counts_set_back(now_at timestamptz, passed_at timestamptz) returns void language sql as $$
  with wanted as materialized (
    select due, route_id, sum(n) as n
    from (
      select delayed_to(retrying, run_at, last_updated) as due, route_id, 1 as n from tasks
      where run_at > now_at and run_at < passed_at + interval '1 s'
      union all
      select due, route_id, -live from count_changes
      union all
      select due, route_id, -count from live_due) x
    where due > now_at and due <= passed_at and (select sum(live) from live_counts) <= 10000000
    group by 1, 2 having sum(n) <> 0),
   later as (
    insert into live_due as d (due, route_id, count) select due, route_id, n from wanted
    on conflict (due, route_id) do update set count = d.count + excluded.count)
  update live_counts c set delayed = c.delayed + w.n
  from (select route_id, sum(n) as n from wanted group by 1) w where c.route_id = w.route_id
$$;
