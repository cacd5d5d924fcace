-- Returns the oldest partition of the history that may be dropped: its day is over and, if managers archive, it is
-- archived. $1 whether this manager archives.
select partition from history_over((statement_timestamp() at time zone 'UTC')::date)
where archived or not $1::boolean and not exists (select from managers where archives and not stopped)
limit 1
