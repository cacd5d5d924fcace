-- Deletes old audit events of workers. $1 the retention in days, if no queue or manager has a longer one.
delete from worker_events where id in (
  select id from worker_events where at < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1)
  order by at limit 5000)
