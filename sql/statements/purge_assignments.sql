-- Forgets closed journal rows of long ago. $1 days.
delete from assignments where id in (
  select id from assignments
  where closed_at < statement_timestamp() - interval '1 day' * ($1::int + 1) order by id limit 5000)
