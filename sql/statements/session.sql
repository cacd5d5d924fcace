-- The settings of every connection. $1 statement time-out in ms.
select set_config('search_path', 'reeve', false), set_config('jit', 'off', false),
  set_config('statement_timeout', $1::int::text, false), set_config('idle_in_transaction_session_timeout', '30s', false),
  set_config('timezone', 'UTC', false), set_config('default_transaction_isolation', 'read committed', false)
