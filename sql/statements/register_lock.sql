-- One worker of a name registers at a time: the next one sees what the one before has committed. Until the end of the
-- transaction. $1 name.
select pg_advisory_xact_lock(hashtext('reeve.worker'), hashtext($1))
