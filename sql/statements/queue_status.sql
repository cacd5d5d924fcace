-- How a queue stands: state, since when, waiting, running, ended (of its batch; without one
-- as far as the history goes, or -1 if that is not wanted), and its batch. No state: nobody knows the queue. $1 queue, $2 whether
-- to tell how many the history has.
select case when queue_known($1) then s.state end, s.since, s.waiting, s.running,
  case when b.id is not null then b.success + b.failed
    when $2::boolean then (select coalesce(sum(h.count), 0)::bigint from history_totals h
      where h.route_id in (select id from routes where queue = $1))
    else -1 end as ended, b.*
from queue_shown($1::text) s left join batches_shown b on b.id = s.batch_id
