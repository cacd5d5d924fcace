-- Sets the next expiry of the journal rows that expired_find has checked. Rows that another session has locked are left
-- for the next time.
--   $1 the newest journal row from before a clock jump, $2 how long the manager has watched since, in ms, both as
--   expired_find had them; after $3 and $4 (next_expiry, id), up to $5 and $6
with due as materialized (
  select id, task_ids from assignments
  where closed_at is null and next_expiry between $3::timestamptz and $5::timestamptz
    and (next_expiry, id) > ($3, $4::bigint) and (next_expiry, id) <= ($5, $6::bigint)
    and (id > $1 or interval '1ms' * $2::bigint >= next_expiry - at)),
 next as materialized (
  select d.id, (
    select min(t.expiry) from unnest(d.task_ids) x(id)
    cross join lateral (
      select expiry from tasks t where t.id = x.id and t.assignment_id = d.id and t.status = 'executing' offset 0) t
    ) as expiry
  from due d order by d.id)
update assignments a set next_expiry = n.expiry
from (select n.* from next n
  cross join lateral (select next_expiry, closed_at from assignments x where x.id = n.id offset 0 for no key update skip locked) x
  where x.closed_at is null and x.next_expiry is distinct from n.expiry
  offset 0) n
where a.id = any(array[n.id])
