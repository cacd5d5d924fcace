-- Deletes requests older than any that is still accepted: a day, and an hour more. Their ids begin with their time.
delete from requests where id in (
  select id from requests
  where id < (lpad(to_hex((extract(epoch from statement_timestamp() - interval '25 hours') * 1000)::bigint), 12, '0')
    || repeat('0', 20))::uuid
  order by id limit 20000)
