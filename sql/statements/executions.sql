-- Returns ended attempts since a time, by hour, by queue and type, or by type: those that completed, that did not, or all;
-- how many there are, how many of them completed, and how long they took from claim to end. Attempts that never arrived at
-- their worker do not count. Full hours are in `executions`, as far as they have been counted there; the rest is counted
-- from the attempts and, for the last attempt of an ended task, from the history, where no such task is deleted before the
-- day on which it ended. Each call returns a part of them (executions_page); the last row has no count, and its next_page
-- is where the next page begins.
-- takes ExecutionsRequest: by, queue?, type?, since_us, page?, @max_bytes, status, all_queues
-- gives ExecutionsResponse.counts: count, hour_us, queue, type, completed, total_ms, average_ms, fastest_ms, slowest_ms, last_us, last_ms, total_us,
--   .next_page
with found as materialized (
  select * from executions_page($2, $3, case $7::text when 'completed' then true when 'failed' then false end, $1::text = 'type',
    $4, $5, $6::bigint))
(select sum(count)::bigint as count, hour, case when not $8::boolean then queue end as queue, type,
  sum(completed)::bigint as completed, (sum(total_us) / 1000)::bigint as total,
  (sum(total_us) / sum(count) / 1000)::bigint as average, (min(fastest_us) / 1000.0)::bigint as fastest,
  (max(slowest_us) / 1000.0)::bigint as slowest, max(last) as last,
  ((max(array[time_us(last), last_us]))[2] / 1000.0)::bigint as last_ms, sum(total_us)::bigint as total_us,
  null::text as next_page
from found where count is not null
group by 2, 3, 4 order by 2, 3, 4)
union all
select null, null, null, null, null, null, null, null, null, null, null, null, next_page from found where count is null
