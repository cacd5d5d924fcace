-- Records in count_changes that these tasks, whose rows are locked, exist as they are now (1), or no longer do (-1).
create or replace function tasks_counted(ids bigint[], sign int) returns void language sql as $$
  insert into count_changes (route_id, due, live, retrying)
  select route_id, delayed_to(retrying, run_at, last_updated), sign * count(*), sign * count(retrying)
  from tasks where id = any(ids) group by 1, 2
$$;
