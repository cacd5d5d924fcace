-- The settings of every connection, in ms. $1 statement time-out, $2 lock time-out (0: none), $3 how long a manager that is
-- frozen or cut off may keep the locks of an open transaction, or of a statement whose answer it does not read.
select set_config('search_path', 'reeve', false), set_config('jit', 'off', false),
  set_config('lock_timeout', $2::int::text, false), set_config('statement_timeout', $1::int::text, false),
  set_config('idle_in_transaction_session_timeout', $3::int::text, false),
  set_config('tcp_user_timeout', $3::int::text, false),
  set_config('timezone', 'UTC', false), set_config('default_transaction_isolation', 'read committed', false)
