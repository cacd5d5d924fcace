-- Lists current pipelines by name: as many as fit into an answer, but at least one, and whether there are more.
-- takes ListPipelinesRequest: after_name, limit, @max_bytes
-- gives ListPipelinesResponse.pipelines: [pipeline], .more
with found as materialized (
  select * from pipelines where name > $1::text and replaced_at is null order by name limit $2::bigint + 1),
 fitting as materialized (
  select * from (
    select *, row_number() over w as place, sum(octet_length(stages::text)) over w as bytes
    from found window w as (order by name)) x
  where place = 1 or place <= $2 and bytes <= $3::bigint)
select id, name, stages_shown(stages), max_steps, source, created, (select count(*) from fitting) < (select count(*) from found)
from fitting order by name
