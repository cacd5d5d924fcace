-- Deletes minutes that are older than a day, and hours that are older than a year.
delete from activity where (hourly, at, route_id) in (
  select hourly, at, route_id from activity
  where not hourly and at < statement_timestamp() - interval '25 hours' or hourly and at < statement_timestamp() - interval '366 days'
  order by hourly, at limit 5000)
