-- Says that a manager lives. Answers the database's time, how many routes there are, the newest journal row, the managers
-- that have not stopped with how far their ticks have come, a row each (who of them lives is judged by each on its own
-- clock), the fingerprint of the queues' settings, whether callbacks wait, whether tasks
-- that were submitted by SQL are to be admitted, and the schema's version. $1 its id.
with me as (update managers set hb_seq = hb_seq + 1, hb_at = clock_timestamp(), stopped = false
  where id = any(array(select id from managers where id = $1 for no key update skip locked)))
select clock_timestamp(), (select count(*) from routes where labels = '{}'), (select case when is_called then last_value else 0 end from assignments_id_seq), m.id, m.hb_seq,
  (select count(*) || ' ' || coalesce(max(updated)::text, '') from queues),
  exists (select from callbacks where state = 'waiting'), exists (select from arrivals),
  (select max(version) from schema_migrations)
from managers m where not m.stopped or m.id = $1 order by m.id
