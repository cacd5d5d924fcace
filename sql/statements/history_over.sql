-- The oldest partition of the history that may be dropped: its day is over, and where a manager archives, it is archived.
select partition from history_over((statement_timestamp() at time zone 'UTC')::date)
where archived or not exists (select from managers where archives and not stopped)
limit 1
