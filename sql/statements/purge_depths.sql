-- Deletes minutes that are older than a day, and hours that are older than a year.
delete from depths where (hourly, queue, at) in (
  select hourly, queue, at from depths
  where not hourly and at < statement_timestamp() - interval '25 hours' or hourly and at < statement_timestamp() - interval '366 days'
  order by hourly, at limit 5000)
