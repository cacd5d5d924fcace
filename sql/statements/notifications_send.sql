-- Notifies the other managers that a stream has work that they may not have seen. $1 "manager route priority run_at".
select pg_notify('reeve_notify', $1)
