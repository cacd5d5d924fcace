-- Drops a partition of the history, and removes its tasks from the counts. Takes the lock `counts`: changes that
-- another session has taken and not committed would be counted after the partition is gone. While the table is being
-- dropped, no session can add to the history.
create or replace function drop_history_partition(partition text) returns void language plpgsql as $$
declare
  day date := to_date(substring(partition from '[0-9]{8}$'), 'YYYYMMDD');
begin
  perform from locks where name = 'counts' for no key update;
  execute format('drop table if exists reeve.%I', partition);
  update archives a set dropped = clock_timestamp() where a.partition = $1 and a.dropped is null;
  update count_changes set keep_until = null, count = 0 where keep_until = day;
  with gone as (delete from history_day_counts where keep_until = day returning route_id, status, count)
  update history_counts c set count = c.count - g.count
  from (select route_id, status, sum(count) as count from gone group by 1, 2) g
  where c.route_id = g.route_id and c.status = g.status;
  delete from history_counts where count = 0;
end $$;
