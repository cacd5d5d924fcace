-- Adds up the statistics of hours that are older than a year in one hour of 1970, in which there were none.
with old as (
  delete from executions where hour < statement_timestamp() - interval '366 days' and hour > '1970-01-02 00:00+00' returning *)
insert into executions as x (hour, queue, type, well, count, total_us, fastest_us, slowest_us, last, last_us)
select '1970-01-02 00:00+00', queue, type, well, sum(count)::bigint, sum(total_us)::bigint, min(fastest_us), max(slowest_us),
  max(last), (max(array[time_us(last), last_us]))[2]
from old group by queue, type, well
on conflict (hour, queue, type, well) do update set count = x.count + excluded.count, total_us = x.total_us + excluded.total_us,
  fastest_us = least(x.fastest_us, excluded.fastest_us), slowest_us = greatest(x.slowest_us, excluded.slowest_us),
  last = excluded.last, last_us = excluded.last_us
