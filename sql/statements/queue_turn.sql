-- Takes turns with other sessions that end tasks of a queue, transaction by transaction: the turn is the lock of the
-- queue's first route. Without a route there is no task. $1 queue, $2 whether to wait for the turn. Returns whether
-- this session has it.
with first as materialized (select min(id) as id from routes where queue = $1)
select case when f.id is null then true
  when $2::boolean then (select true from (select id from routes where id = f.id for no key update) r)
  else coalesce((select true from (select id from routes where id = f.id for no key update skip locked) r), false) end
from first f
