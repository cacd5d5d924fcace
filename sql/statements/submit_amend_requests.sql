-- Records the ids that are actually answered, in the transaction that created the request rows.
--   $1 request ids; then one element per task: $2 its request's place in $1, $3 id, $4 whether it existed already,
--   $5 whether it runs again
update requests r set task_ids = x.ids, existing = x.existing, restarted = x.restarted
from (
  select ($1::uuid[])[request] as id, array_agg(u.id order by n) as ids, array_agg(existing order by n) as existing,
    case when bool_or(restarted) then array_agg(restarted order by n) else '{}' end as restarted
  from unnest($2::int[], $3::bigint[], $4::boolean[], $5::boolean[]) with ordinality
    u(request, id, existing, restarted, n) group by request) x
where r.id = any(array[x.id])
