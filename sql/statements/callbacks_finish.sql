-- Records the outcomes of calls. A delivery counts, whichever manager made it; a failure counts only if no manager has
-- taken the callback since.
--   one element per callback, in id order: $1 ids, $2 by which takes, $3 whether it was delivered, $4 whether it is
--   given up, $5 the retry delay in ms otherwise, $6 the HTTP status or null, $7 the error or null, $8 how often it has
--   been tried
with settled as (
  select c.id, u.delivered, u.over, u.rest_ms, u.status, u.error, u.attempts
  from unnest($1::bigint[], $2::int[], $3::bool[], $4::bool[], $5::bigint[], $6::int[], $7::text[], $8::int[])
    u(id, take, delivered, over, rest_ms, status, error, attempts)
  join callbacks c on c.id = u.id and c.state = 'waiting' and (u.delivered or c.takes = u.take)
  order by c.id for no key update of c)
update callbacks c set attempts = greatest(c.attempts, s.attempts),
  state = case when s.delivered then 'delivered' when s.over then 'given_up' else 'waiting' end,
  next_at = case when s.delivered or s.over then c.next_at else clock_timestamp() + interval '1ms' * s.rest_ms end,
  next_set_at = clock_timestamp(),
  ended_at = case when s.delivered or s.over then clock_timestamp() end,
  last_status = s.status, last_error = coalesce(s.error, c.last_error)
from settled s where c.id = s.id
returning c.id, c.state
