-- The settings of every connection. $1 statement time-out, $2 lock time-out in ms (0: none).
select set_config('search_path', 'reeve', false), set_config('jit', 'off', false),
  set_config('lock_timeout', $2::int::text, false),
  set_config('statement_timeout', $1::int::text, false), set_config('idle_in_transaction_session_timeout', '30s', false),
  set_config('timezone', 'UTC', false), set_config('default_transaction_isolation', 'read committed', false)
