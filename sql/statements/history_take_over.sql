-- What is in the history's default partition of a day that is over gets a partition. Answers whether there is more of it.
select history_take_over((statement_timestamp() at time zone 'UTC')::date, 50000)
