-- Moves past days from the history's default partition to partitions of their own. Returns whether there is more to
-- move.
select history_take_over((statement_timestamp() at time zone 'UTC')::date, 50000)
