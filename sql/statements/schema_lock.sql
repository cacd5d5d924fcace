-- One manager migrates at a time; held until the transaction ends.
do $$ begin perform pg_advisory_xact_lock(hashtext('reeve.schema_migrations')); end $$
