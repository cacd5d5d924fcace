-- Counts rows that leave the history other than with their partition: those of tasks that are retried or run again.
-- Statements that add to the history count for themselves.
create or replace function history_left() returns trigger language plpgsql set search_path = reeve, pg_temp as $$
begin
  insert into count_changes (keep_until, route_id, status, count)
  select keep_until, route_id, status, -count(*) from gone group by 1, 2, 3;
  return null;
end $$;

create or replace trigger history_left after delete on task_history referencing old table as gone
  for each statement execute function history_left();
