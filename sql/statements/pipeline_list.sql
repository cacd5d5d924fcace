-- Lists current pipelines by name: as many as fit into $4 bytes, but at least one, and whether there are more. $1 only
-- this one, or null, $2 only names after this one, $3 the maximum number.
with found as materialized (
  (select * from pipelines where name = $1::text and replaced_at is null)
  union all
  (select * from pipelines where $1::text is null and name > $2::text and replaced_at is null order by name limit $3::bigint + 1)),
 fitting as materialized (
  select * from (
    select *, row_number() over w as place, sum(octet_length(stages::text)) over w as bytes
    from found window w as (order by name)) x
  where place = 1 or place <= $3 and bytes <= $4::bigint)
select id, name, stages::text, max_steps, source, created, (select count(*) from fitting) < (select count(*) from found) as more
from fitting order by name
