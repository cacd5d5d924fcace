-- Changes settings of a queue. $1 request id, $2 queue, $3 new values of columns as JSON, $4 the actor. The columns of
-- the answer are those of queue_describe.
select true, (select s.state from queue_view($2::text) s), batches, autostart, is_verbose, max_attempts, retry_policy::text, queue_retry_base_ms(q, null),
  retry_max_ms, resting_ms, waiting_ms, callback_url, callback_secret is not null, callback_tasks, callback_type, entry_type,
  exit_type, keep_completed_days, keep_dead_days, keep_cancelled_days, created, updated
from queue_set($1::uuid, $2::text, $3::text::jsonb, $4::text) q
