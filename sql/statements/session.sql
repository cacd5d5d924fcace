-- Sets the options of every connection; times are in ms. $1 statement timeout, $2 lock timeout (0: none), $3 how long a
-- manager that is frozen or disconnected may keep the locks of an open transaction, or of a statement whose answer it
-- does not read; $4 whether each statement is planned once instead of each time: to plan over the history's many
-- partitions takes longer than to execute a quick statement.
select set_config('search_path', 'reeve', false), set_config('jit', 'off', false),
  set_config('lock_timeout', $2::int::text, false), set_config('statement_timeout', $1::int::text, false),
  set_config('idle_in_transaction_session_timeout', $3::int::text, false),
  set_config('tcp_user_timeout', $3::int::text, false),
  set_config('plan_cache_mode', case when $4::boolean then 'force_generic_plan' else 'auto' end, false),
  set_config('timezone', 'UTC', false), set_config('default_transaction_isolation', 'read committed', false)
