-- Returns which attempts run now at workers of an identity. Whom an attempt belongs to never changes.
--   one element per attempt: $1 ids, $2 tokens, $3 the identities that are asked for, or null for an admin's workers
-- Returns places in $1.
select u.n
from unnest($1::bigint[], $2::timestamptz[], $3::bigint[]) with ordinality u(id, token, identity, n)
cross join lateral (
  select worker_id from tasks t where t.id = u.id and t.last_updated = u.token and t.status = 'executing' offset 0) t
cross join lateral (select from workers w where w.id = t.worker_id and w.identity is not distinct from u.identity offset 0) w
order by u.n
