-- Drops the oldest partition whose day is over, if there is one.
select drop_history_partition((statement_timestamp() at time zone 'UTC')::date)
