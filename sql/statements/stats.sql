-- Totals over everything, but for the live tasks, which queue_counts counts. $1 lease in ms.
select coalesce(sum(count) filter (where status = 'completed'), 0)::bigint as completed,
  coalesce(sum(count) filter (where status = 'dead'), 0)::bigint as dead,
  coalesce(sum(count) filter (where status = 'cancelled'), 0)::bigint as cancelled,
  (select count(*) from workers where gone_at is null and not lost and not by_hand
    and hb_at >= clock_timestamp() - interval '1ms' * $1::bigint) as alive
from history_totals
