-- Stores a manager's counters that have changed as metrics of the category "manager". $1 its id, $2 its name; one
-- element per counter: $3 names, $4 values.
insert into metrics as m (category, name, value, source, manager_id)
select 'manager', $2 || '/' || u.name, u.value, $2, $1::bigint
from unnest($3::text[], $4::bigint[]) u(name, value) order by u.name
on conflict (category, name) do update set value = excluded.value, manager_id = excluded.manager_id, source = excluded.source,
  changed = clock_timestamp(), updated = clock_timestamp()
where (m.value, m.manager_id) is distinct from (excluded.value, excluded.manager_id)
