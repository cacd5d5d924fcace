-- In a submit's transaction: what has to wait for a lock is refused soon. Whoever has a key for longer has an open transaction.
select set_config('lock_timeout', '20', true)
