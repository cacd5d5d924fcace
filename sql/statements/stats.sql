-- Returns the totals of everything, from the stored counts.
-- takes StatsRequest: @lease_ms
-- gives StatsResponse: queued, delayed, executing, failed, completed, dead, cancelled, workers_alive
select l.*, h.*, (select count(*) from workers where gone_at is null and not lost and not manual
    and hb_at >= clock_timestamp() - interval '1ms' * $1::bigint) as alive
from (
  select coalesce(sum(queued), 0)::bigint as queued, coalesce(sum(delayed), 0)::bigint as delayed,
    coalesce(sum(executing), 0)::bigint as executing, coalesce(sum(failed), 0)::bigint as failed
  from live_totals(null)) l
cross join (
  select coalesce(sum(count) filter (where status = 'completed'), 0)::bigint as completed,
    coalesce(sum(count) filter (where status = 'dead'), 0)::bigint as dead,
    coalesce(sum(count) filter (where status = 'cancelled'), 0)::bigint as cancelled
  from history_totals) h
