-- Sets a short lock timeout, 20 ms, in a submit's transaction. A session that has a key for longer than that has an
-- open transaction.
select set_config('lock_timeout', '20', true)
