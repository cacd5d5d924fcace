-- Notes the ids that were really answered, in the transaction that made the request rows.
--   $1 request ids; then one element a task: $2 its request's place in $1, $3 id, $4 whether it was there already
update requests r set task_ids = x.ids, existing = x.existing
from (
  select ($1::uuid[])[request] as id, array_agg(u.id order by n) as ids, array_agg(existing order by n) as existing
  from unnest($2::int[], $3::bigint[], $4::boolean[]) with ordinality u(request, id, existing, n) group by request) x
where r.id = any(array[x.id])
