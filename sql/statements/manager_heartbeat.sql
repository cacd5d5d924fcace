-- Records a manager's heartbeat. Returns the database's time, a fingerprint of the routes in use, the newest journal
-- row, the managers that have not stopped (one row each, with its heartbeat number; each manager decides on its own
-- clock which of them live), the fingerprint of the queues' settings, and the schema's version. While the clock shows
-- less than some manager has seen, stopped or not: also the furthest estimate of the time, and when the clock was set
-- back. Waiting periods of queues that would last longer than set begin again: the clock was set back, or the setting was
-- lowered, since they began. A queue whose stop is in the future was stopped by a clock that has been set back: it counts as
-- stopped now, so that what comes later comes after the stop. $1 its id, $2 its estimate
with me as (update managers set hb_seq = hb_seq + 1, hb_at = clock_timestamp(), stopped = false, clock_estimate = $2,
    clock_ahead_until = case when greatest(clock_ahead_until, hb_at) > clock_timestamp() then greatest(clock_ahead_until, hb_at) end,
    clock_set_back = case when hb_at > clock_timestamp() then clock_timestamp() when clock_ahead_until > clock_timestamp() then clock_set_back end,
    clock_set_back_xid = case when hb_at > clock_timestamp() then pg_current_xact_id() when clock_ahead_until > clock_timestamp() then clock_set_back_xid end
  where id = any(array(select id from managers where id = $1 for no key update skip locked))),
 times as (update queues set updated = clock_timestamp(),
    waiting_until = case when waiting_until is not null then least(waiting_until, clock_timestamp() + interval '1ms' * waiting_ms) end,
    stopped_at = case when stopped_at is not null then least(stopped_at, clock_timestamp()) end
  where name = any(array(
    select name from queues where waiting_until > clock_timestamp() + interval '1ms' * waiting_ms or stopped_at > clock_timestamp()
    for no key update skip locked)))
select clock_timestamp(),
  (select coalesce(sum(x # (x >> 16)), 0)::bigint
   from (select id::bigint * 2654435761 % 4294967296 as x from routes where retired is null) r), -- as fingerprint_of() in routes.c
  (select case when is_called then last_value else 0 end from assignments_id_seq), m.id, m.hb_seq,
  (select count(*) || ' ' || coalesce(sum(time_us(updated)), 0) from queues), -- as in queues_load.sql
  (select max(version) from schema_migrations), ahead.estimate, ahead.set_back
from managers m
cross join clock_ahead() ahead
where not m.stopped or m.id = $1 order by m.id
