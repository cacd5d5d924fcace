-- The oldest partition of the history that may be dropped: its day is over, and where managers archive, it is archived.
-- $1 whether this one does.
select partition from history_over((statement_timestamp() at time zone 'UTC')::date)
where archived or not $1::boolean and not exists (select from managers where archives and not stopped)
limit 1
