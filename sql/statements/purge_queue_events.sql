-- Deletes old audit events of queues. $1 the retention in days, if no manager has a longer one.
delete from queue_events where id in (
  select id from queue_events where at < statement_timestamp() - interval '1 day' * ((select history_keep($1::int)) + 1)
  order by at limit 5000)
