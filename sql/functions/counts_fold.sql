-- Adds up count_changes, many rows at a time; does nothing if another session is doing so. Removes due tasks from the
-- delayed ones. Returns how many changes or due times it processed, whichever is more.
create or replace function counts_fold() returns bigint language plpgsql as $$
declare
  now_at constant timestamptz := clock_timestamp();
  most constant int := 5000;
  passed_at timestamptz;
  changes bigint;
  passed bigint;
  dues timestamptz[];
  routes int[];
  used int[];
  due_taken boolean;
begin
  select us_time(holder) into passed_at from locks where name = 'counts' for no key update skip locked;
  if not found then
    return 0;
  end if;
  if date_trunc('second', passed_at) > now_at then
    perform counts_set_back(now_at, passed_at);
  end if;
  with taken as (
    delete from count_changes where ctid = any(array(select ctid from count_changes limit most)) returning *),
   days as (
    insert into history_day_counts as c (keep_until, route_id, status, count)
    select keep_until, route_id, status, sum(count) from taken where keep_until is not null group by 1, 2, 3
    on conflict (keep_until, route_id, status) do update set count = c.count + excluded.count),
   totals as (
    insert into history_counts as c (route_id, status, count)
    select route_id, status, sum(count) from taken where keep_until is not null group by 1, 2
    on conflict (route_id, status) do update set count = c.count + excluded.count),
   later as (
    insert into live_due as d (due, route_id, count)
    select due, route_id, sum(live) from taken where due > now_at group by 1, 2 having sum(live) <> 0
    on conflict (due, route_id) do update set count = d.count + excluded.count
    returning *),
   live as (
    insert into live_counts as c (route_id, live, retrying, delayed)
    select route_id, sum(live), sum(retrying), coalesce(sum(live) filter (where due > now_at), 0)
    from taken where live <> 0 or retrying <> 0 group by 1
    on conflict (route_id) do update set live = c.live + excluded.live, retrying = c.retrying + excluded.retrying,
      delayed = c.delayed + excluded.delayed)
  select (select count(*) from taken), array_agg(due), array_agg(route_id),
    (select array_agg(distinct route_id) from taken where live > 0 or count > 0), (select bool_or(due <= now_at) from taken)
  into changes, dues, routes, used, due_taken from later where count = 0;
  perform routes_return(used);
  delete from live_due where (due, route_id) in (select * from unnest(dues, routes));
  with gone as (
    delete from live_due where (due, route_id) in (select due, route_id from live_due where due <= now_at order by due limit most)
    returning route_id, count),
   less as (
    update live_counts c set delayed = c.delayed - g.count
    from (select route_id, sum(count) as count from gone group by 1) g where c.route_id = g.route_id)
  select count(*) into passed from gone;
  update locks set holder = time_us(now_at) where name = 'counts'
    and (passed > 0 or due_taken or holder > time_us(now_at));
  return greatest(changes, passed);
end $$;
