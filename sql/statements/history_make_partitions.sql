-- Makes the history's partitions for the coming days. $1 days the history keeps tasks.
select make_history_partitions((statement_timestamp() at time zone 'UTC')::date, $1::int + 9)
