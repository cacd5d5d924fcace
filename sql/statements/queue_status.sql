-- Returns the status of a queue: state, since when, waiting, running, ended (those still in the history), how many of these
-- completed and how many did not, how many batches have not ended, and its batch, the open one or the last. No state: the
-- queue is not known. Since when it is finished is known if the end of its batch was the end of everything in the queue; in
-- some queues every task is in a batch.
-- takes QueueStatusRequest: queue
-- gives QueueStatusResponse: queue, state, since_us, waiting, running, ended, completed, failed, open_batches, batch.[batch]
select $1::text, case when queue_known($1) then s.state end,
  case when s.state <> 'finished' or coalesce(q.batches, false)
      or quiet_since($1, coalesce((select callback_type from batches where id = b.id), ''), b.ended_at)
    then s.since end,
  s.waiting, s.running,
  e.completed + e.failed, e.completed, e.failed,
  (select count(*) from (select queue from batches where phase <> 'ended' offset 0) o where o.queue = $1), b.*
from queue_view($1::text) s left join queues q on q.name = $1 left join batches_shown b on b.id = s.batch_id
cross join lateral (
  select coalesce(sum(h.count) filter (where h.status = 'completed'), 0)::bigint as completed,
    coalesce(sum(h.count) filter (where h.status <> 'completed'), 0)::bigint as failed
  from history_totals h where h.route_id in (select id from routes where queue = $1)) e
