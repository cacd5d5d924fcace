-- Deletes statistics of executions that are older than a year.
delete from executions where hour < statement_timestamp() - interval '366 days'
