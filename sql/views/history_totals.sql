-- The number of tasks in the history by route and final status.
create or replace view history_totals as
  select route_id, status, sum(count)::bigint as count
  from (select route_id, status, count from history_counts
    union all
    select route_id, status, count from count_changes where keep_until is not null) c
  group by route_id, status;
