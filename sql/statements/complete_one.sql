-- Ends a plain attempt that completed like complete, if it is the only one: without aggregates, which cost as much as the
-- rest.
--   the parameters of complete, each array with one element
{part complete_plain},
 ended_counts as (
  insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
  select keep_until, route_id, 'completed', 1, delayed_to(retrying, run_at, token), -1,
    case when retrying is null then 0 else -1 end
  from done),
 lowered as (
  update assignments a set open = a.open - 1, closed_at = case when a.open = 1 then clock_timestamp() end
  from done d where a.id = any(array[d.assignment_id]))
select id, token, route_id, attempt from done
