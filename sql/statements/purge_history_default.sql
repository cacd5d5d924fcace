-- Forgets what the default partition holds of days that are over.
delete from task_history_default where ctid = any(array(
  select ctid from task_history_default
  where keep_until < (statement_timestamp() at time zone 'UTC')::date limit 5000))
