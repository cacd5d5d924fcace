-- Deletes requests older than any that is still accepted: a day, and an hour more, with the keys that stand for them. Their ids
-- begin with their time.
with bound as materialized (
  select (lpad(to_hex((extract(epoch from statement_timestamp() - interval '25 hours') * 1000)::bigint), 12, '0')
    || repeat('0', 20))::uuid as id),
 keys as (
  delete from call_keys where key in (
    select key from call_keys where request_id < (select id from bound) order by request_id limit 20000))
delete from requests where id in (
  select id from requests where id < (select id from bound) order by id limit 20000)
