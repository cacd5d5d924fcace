-- Attempts that ended since a time, by hour or by queue and type: how many, how many of them well, and how long they took
-- from claim to end. Those that never arrived at their worker do not count. Whole hours are in `executions`, as far as they
-- have been counted there; the rest is counted from the attempts and, of the last attempt of a task that has ended, from the
-- history, where no such task may go before the day it ended on. A part of them, that is (executions_page); the last row has no
-- count, but tells where the next page begins.
--   $1 whether by type, else by hour; $2 queue or null, $3 type or null, $4 since, $5 where the page begins, or null
with found as materialized (select * from executions_page($2, $3, $1::boolean, $4, $5))
(select hour, queue, type, sum(count)::bigint as count, sum(completed)::bigint as completed, (sum(total_us) / 1000)::bigint as total,
  (sum(total_us) / sum(count) / 1000)::bigint as average, (min(fastest_us) / 1000.0)::bigint as fastest,
  (max(slowest_us) / 1000.0)::bigint as slowest, max(last) as last, sum(total_us)::bigint as total_us,
  null::text as next_page
from found where count is not null
group by 1, 2, 3 order by 1, 2, 3)
union all
select null, null, null, null, null, null, null, null, null, null, null, next_page from found where count is null
