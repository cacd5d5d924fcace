-- Deletes callbacks that were delivered or given up. $1 the retention in days, if no manager has a longer one.
delete from callbacks where id in (
  select id from callbacks where ended_at < statement_timestamp() - interval '1 day' * (select history_keep($1::int))
  order by ended_at limit 5000)
