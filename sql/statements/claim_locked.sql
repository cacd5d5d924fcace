-- Returns the candidates that another session has locked; that session may still leave them unchanged. Waits for no
-- lock. A changed candidate is not in the answer: its claim finds that out.
--   one element per candidate, in id order: $1 ids, $2 versions
select c.id
from unnest($1::bigint[], $2::timestamptz[]) c(id, version)
cross join lateral (select from tasks t where t.id = c.id and t.last_updated = c.version offset 0) t
where (select true from tasks t where t.id = c.id for no key update skip locked) is null
