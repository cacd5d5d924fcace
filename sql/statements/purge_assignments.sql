-- Forgets closed journal rows of long ago. $1 days, if no queue keeps anything longer.
delete from assignments where id in (
  select id from assignments
  where closed_at < statement_timestamp() - interval '1 day' * (longest_keep($1::int) + 1) order by id limit 5000)
