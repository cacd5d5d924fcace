-- Returns the longest retention of any queue or manager, in days.
create or replace function longest_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, history_keep(otherwise),
    (select max(greatest(keep_completed_hours, keep_dead_hours, keep_cancelled_hours)) / 24 from queues))
$$;
