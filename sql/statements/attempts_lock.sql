-- Of attempts that are to be ended though no report says so: those whose row nobody else has locked just now. The others
-- are found again, and hold nobody up. In the transaction that ends them. $1 ids, $2 tokens.
select u.n
from unnest($1::bigint[], $2::timestamptz[]) with ordinality u(id, token, n)
cross join lateral (
  select id from tasks t where t.id = u.id and t.last_updated = u.token and t.status = 'executing'
  offset 0 for no key update skip locked) t
order by u.n
