-- Counts live tasks again, with the table locked against new and ended tasks, and leaves no changes to add up.
create or replace function live_recount() returns void language plpgsql set search_path = reeve, pg_temp as $$
begin
  perform from locks where name = 'counts' for no key update;
  lock table tasks in share row exclusive mode;
  update tasks set retrying = true where status = 'failed' and retrying is distinct from true;
  update tasks set retrying = null where status = 'queued' and retrying;
  update assignments a set plain_route = null
  from (select id from assignments where closed_at is null and plain_route is not null for no key update skip locked) x
  where a.id = x.id;
  update count_changes set due = null, live = 0, retrying = 0 where keep_until is not null and (live <> 0 or retrying <> 0);
  delete from count_changes where keep_until is null;
  delete from live_counts;
  delete from live_due;
  with live as (
    select route_id, delayed_to(retrying, run_at, last_updated) as due, count(*) as n, count(retrying) as retrying
    from tasks group by 1, 2),
   later as (
    insert into live_due select due, route_id, n from live where due > clock_timestamp() returning route_id, count)
  insert into live_counts
  select l.route_id, sum(l.n), sum(l.retrying), coalesce((select sum(d.count) from later d where d.route_id = l.route_id), 0)
  from live l group by 1;
  update locks set holder = time_us(clock_timestamp()) where name = 'counts';
  perform routes_return(array(
    select route_id from live_counts where live <> 0 union select route_id from history_counts where count <> 0));
end $$;
