-- Forgets what was done with queues long ago. $1 days, if no manager keeps it longer.
delete from queue_events where id in (
  select id from queue_events where at < statement_timestamp() - interval '1 day' * ((select history_keep($1::int)) + 1)
  order by at limit 5000)
