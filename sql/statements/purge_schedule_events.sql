-- Forgets what was done with schedules long ago, and by that which removed ones had which runs. $1 days, if no manager keeps it longer.
delete from schedule_events where id in (
  select id from schedule_events where at < statement_timestamp() - interval '1 day' * ((select history_keep($1::int)) + 1)
  order by at limit 5000)
