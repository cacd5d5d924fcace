-- Creates the history's partitions for the coming days; if a queue keeps tasks longer than others, also those for tasks
-- that end in the next days. $1 the retention in days.
select make_history_partitions(d.today, $1::int + 9) + coalesce((
    select sum(make_history_partitions(d.today + k.days, 10)) from (
      select distinct unnest(array[keep_completed_hours, keep_dead_hours, keep_cancelled_hours]) / 24 as days from queues) k
    where k.days > $1::int), 0)
from (select (statement_timestamp() at time zone 'UTC')::date as today) d
