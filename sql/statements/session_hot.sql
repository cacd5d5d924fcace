-- Sets further options of the hot connections, so that their plans hold whatever the statistics say: a queue that was
-- drained and analyzed looks empty, and the next burst would be planned as if it were. $1 whether hash joins are
-- allowed: only where arrays are joined with arrays.
select set_config('enable_seqscan', 'off', false), set_config('enable_mergejoin', 'off', false),
  set_config('enable_bitmapscan', 'off', false), set_config('enable_hashjoin', case when $1::boolean then 'on' else 'off' end, false),
  set_config('plan_cache_mode', 'force_generic_plan', false)
