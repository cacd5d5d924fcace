-- Returns the settings of a queue, and its state. $1 queue.
select q.name is not null, s.state, q.batches, autostart, is_verbose, max_attempts, retry_policy::text, queue_retry_base_ms(q, null),
  retry_max_ms, resting_ms, waiting_ms, callback_url, callback_secret is not null, callback_tasks, callback_type, entry_type,
  exit_type, keep_completed_days, keep_dead_days, keep_cancelled_days, created, updated
from queue_view($1::text) s left join queues q on q.name = $1
