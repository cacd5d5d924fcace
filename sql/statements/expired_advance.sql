-- Sets the next expiry of journal rows whose last one has passed. Answers those that are open with nothing running,
-- which must not happen. Rows that somebody has locked are left for the next time. The parameters are
-- those of expired_find.
with due as materialized (
  select id, task_ids from assignments
  where closed_at is null and next_expiry <= least(statement_timestamp(), $2)
    and (id > $3 or interval '1ms' * $4::bigint >= next_expiry - at)
  order by next_expiry limit $1),
 next as materialized (
  select d.id, (
    select min(t.expiry) from unnest(d.task_ids) x(id)
    cross join lateral (
      select expiry from tasks t where t.id = x.id and t.assignment_id = d.id and t.status = 'executing' offset 0) t
    ) as expiry
  from due d order by d.id)
update assignments a set next_expiry = n.expiry
from (select n.* from next n
  cross join lateral (select from assignments x where x.id = n.id offset 0 for no key update skip locked) x offset 0) n
where a.id = any(array[n.id]) and a.closed_at is null
returning a.id, a.next_expiry is null as adrift
