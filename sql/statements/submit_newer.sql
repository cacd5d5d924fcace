-- After a submit that met taken keys: those with a version, in the order of their keys. A newer one runs its task again.
--   one element a task: $1 its place, $2 its row as JSON
select u.n, r.id, r.restarted, r.route_id, r.priority, r.version, r.run_at
from (select * from unnest($1::bigint[], $2::text[]) v(n, spec) order by v.spec::jsonb ->> 'queue', v.spec::jsonb ->> 'key', v.n) u
cross join lateral submit_newer(u.spec::jsonb) r
order by u.n
