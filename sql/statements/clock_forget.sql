-- Forgets how far ahead the clock was before it was set back: ten minutes later, when callers have got the new time
-- long ago, if nothing live was written then and no open transaction may have written it. (The subqueries on all tasks
-- and callbacks name a row of `ahead`; otherwise they would be executed first, even when the clock is right, and read
-- everything each minute.)
with ahead as (
  select id, clock_set_back as at, clock_set_back_xid as xid from managers
  where greatest(clock_ahead_until, hb_at) > clock_timestamp() + interval '1 s'),
 noted as (
  update managers m set clock_set_back = clock_timestamp(), clock_set_back_xid = pg_current_xact_id()
  from ahead a where m.id = a.id and a.xid is null)
update managers m set clock_ahead_until = null, clock_set_back_xid = null, hb_at = least(hb_at, clock_timestamp())
from ahead a
where m.id = a.id and a.at < clock_timestamp() - interval '10 minutes'
  and (a.xid < pg_snapshot_xmin(pg_current_snapshot()) or a.xid >= pg_snapshot_xmax(pg_current_snapshot())) -- or another cluster's
  and not exists (select from tasks where last_updated > clock_timestamp() + interval '1 s' and a.id is not null offset 0)
  and not exists (select from callbacks where state = 'waiting' and next_set_at > clock_timestamp() + interval '1 s' and a.id is not null offset 0)
