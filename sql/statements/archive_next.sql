-- The oldest partition of the history that is to be archived, if no other manager is at it.
select case when pg_try_advisory_lock(hashtext('reeve.archive')) then (
  select partition from history_over((statement_timestamp() at time zone 'UTC')::date) where not archived limit 1) end
