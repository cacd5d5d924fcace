-- Renews leases, and stores what the workers report of themselves. An incarnation that is lost, has sent a newer
-- heartbeat, or whose row another session has locked, is not in the answer.
--   one element per worker, in the order of $1: $1 incarnations, $2 sequence numbers, $3 modes, $4 concurrency, 0
--   for unchanged, -1 for none, $5 and $6 attempts completed and failed, $7 how many of $9 are the types that it runs now, or 0 for
--   unchanged, $8 the place of the last of these; $9 types, one worker's after the other's
update workers w set hb_seq = u.seq, hb_at = clock_timestamp(), mode = u.mode,
  mode_since = case when w.mode = u.mode then w.mode_since else clock_timestamp() end,
  concurrency = case u.concurrency when 0 then w.concurrency when -1 then 0 else u.concurrency end, completed = u.completed, failed = u.failed,
  types = case when u.types > 0 then ($9::text[])[u.types_to - u.types + 1:u.types_to] else w.types end
from (
  select u.* from unnest($1::bigint[], $2::bigint[], $3::text[], $4::int[], $5::bigint[], $6::bigint[], $7::int[], $8::int[])
    u(id, seq, mode, concurrency, completed, failed, types, types_to)
  cross join lateral (select from workers l where l.id = u.id offset 0 for no key update skip locked) l offset 0) u
where w.id = any(array[u.id]) and not w.lost and w.hb_seq < u.seq
returning w.id
