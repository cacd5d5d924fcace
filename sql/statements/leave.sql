-- Ends incarnations that leave on their own. $1 ids, $2 reasons.
with gone as (
  update workers w set lost = true, gone_at = clock_timestamp()
  from unnest($1::bigint[], $2::text[]) u(id, reason)
  where w.id = any(array[u.id]) and not w.lost
  returning w.id, u.reason)
insert into worker_events (worker_id, event, note) select id, 'left', reason from gone returning worker_id
