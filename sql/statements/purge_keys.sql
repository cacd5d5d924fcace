-- Deletes keys whose lifetime is over.
delete from keys where (queue, key) in (
  select queue, key from keys where expires_at <= statement_timestamp() order by expires_at limit 5000
  for update skip locked)
