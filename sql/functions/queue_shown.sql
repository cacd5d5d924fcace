-- Returns the settings of a queue for display, without the secret; of a queue without settings, the defaults.
create or replace function queue_shown(q queues)
returns table (retry_limit int, retry jsonb, resting_ms bigint, waiting_ms bigint, autostart boolean, verbose boolean, batches boolean,
  callback_url text, callback_tasks boolean, callback_type text, entry_type text, exit_type text, keep_completed_ms bigint,
  keep_dead_ms bigint, keep_cancelled_ms bigint, max_running int, key_ttl_ms bigint, priority int, timeout_ms bigint,
  callback_attempts boolean)
language sql stable as $$
  select coalesce(q.max_attempts, DEFAULT_ATTEMPTS) - 1,
    retry_shown(q.retry_policy, queue_retry_base_ms(q, DEFAULT_RETRY_BASE_MS), coalesce(q.retry_max_ms, DEFAULT_RETRY_MAX_MS)),
    q.resting_ms, q.waiting_ms, coalesce(q.autostart, true), q.is_verbose, q.batches, q.callback_url, q.callback_tasks,
    q.callback_type, q.entry_type, q.exit_type, q.keep_completed_hours * bigint '3600000', q.keep_dead_hours * bigint '3600000',
    q.keep_cancelled_hours * bigint '3600000', coalesce(q.max_running, -1), q.key_ttl_ms,
    coalesce(q.priority, 0), coalesce(q.timeout_ms, DEFAULT_TIMEOUT_MS), q.callback_attempts
$$;
