-- Returns what managers need to know of every queue that has settings. The last column of each row, or of one without a
-- name if there is none, is the fingerprint of all of them: of each, since a change may be committed after a later one.
with f as (select count(*) || ' ' || coalesce(sum(time_us(updated)), 0) as print from queues)
select q.name, q.state, q.batches, q.autostart, q.is_verbose, q.max_attempts,
  queue_retry_base_ms(q, null) as retry_base_ms, q.retry_max_ms,
  q.retry_policy::text, q.resting_ms, q.waiting_ms, f.print, q.max_running,
  greatest(0, extract(epoch from q.waiting_until - clock_timestamp()) * 1000)::bigint as waiting_left_ms,
  q.priority, q.timeout_ms
from f left join queues q on true order by q.name
