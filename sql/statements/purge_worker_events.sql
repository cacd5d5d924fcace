-- Forgets the coming and going of long ago. $1 days.
delete from worker_events where id in (
  select id from worker_events where at < statement_timestamp() - interval '1 day' * ($1::int + 1)
  order by at limit 5000)
