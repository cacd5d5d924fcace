-- Forgets the coming and going of long ago. $1 days, if no queue keeps anything longer.
delete from worker_events where id in (
  select id from worker_events where at < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1)
  order by at limit 5000)
