-- Counts everything again, with the tables locked against new and ended tasks: for example after rows were changed
-- manually.
create or replace function counts_recount() returns void language plpgsql set search_path = reeve, pg_temp as $$
begin
  perform from locks where name = 'counts' for no key update;
  lock table tasks, task_history in share row exclusive mode;
  delete from count_changes where keep_until is not null;
  delete from history_counts;
  delete from history_day_counts;
  insert into history_day_counts select keep_until, route_id, status, count(*) from task_history group by 1, 2, 3;
  insert into history_counts select route_id, status, sum(count) from history_day_counts group by 1, 2;
  perform live_recount();
end $$;
