-- Workers, and those who pulled by hand and hold something. $1 also those that are gone, and hands that hold nothing, $2
-- lease in ms, $3 only those that serve this queue, or null.
select w.id, w.name, w.host, w.pid, w.version, w.concurrency, w.queues, w.types, w.registered, w.hb_at,
  case when w.lost then 'gone'
    when not w.by_hand and w.hb_at < clock_timestamp() - interval '1ms' * $2::bigint then 'late' else 'alive' end as state,
  coalesce((select sum(a.open) from assignments a where a.worker_id = w.id and a.closed_at is null), 0)::bigint
    as holding, w.state as doing, w.state_since, w.succeeded, w.failed, w.by_hand,
  (1000 * extract(epoch from case when w.lost then greatest(w.hb_at, w.registered) else clock_timestamp() end - w.registered))::bigint
    as uptime_ms
from workers w
where ($1::boolean or not w.lost and (not w.by_hand
    or exists (select from assignments a where a.worker_id = w.id and a.closed_at is null)))
  and ($3::text is null or w.queues = '{}' or $3 = any(w.queues)) order by w.id
