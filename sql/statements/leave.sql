-- Ends incarnations that leave on their own. $1 ids, $2 reasons, $3 actors.
with gone as (
  update workers w set lost = true, gone_at = clock_timestamp()
  from unnest($1::bigint[], $2::text[], $3::text[]) u(id, reason, actor)
  where w.id = any(array[u.id]) and not w.lost
  returning w.id, u.reason, u.actor)
insert into worker_events (worker_id, event, actor, note) select id, 'left', actor, reason from gone returning worker_id
