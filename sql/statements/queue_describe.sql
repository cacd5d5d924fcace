-- Returns the settings of a queue, and its state; no state: it has no settings and never had a task.
-- takes DescribeQueueRequest: queue
-- gives DescribeQueueResponse: queue, is_set, has_secret, state, created_us, updated_us, settings.[queue_settings]
select $1::text, q.name is not null, q.callback_secret is not null, case when q.name is not null or s.state <> 'created' then s.state end,
  q.created, q.updated, d.*
from queue_view($1) s left join queues q on q.name = $1 cross join lateral queue_shown(q) d
