-- Lists schedules by name, without their tasks' details: as many as fit into an answer, but at least one, and whether
-- there are more.
-- takes ListSchedulesRequest: after_name, limit, @max_bytes
-- gives ListSchedulesResponse.schedules: [schedule], -, -, .more
with found as materialized (
  select d.*, row_number() over w as place, sum(1000 + octet_length(d.task::text)) over w as bytes
  from (select s from schedules s where s.name > $1::text order by s.name limit $2::bigint + 1) x
  cross join lateral schedule_shown(x.s) d window w as (order by d.name)),
 fitting as materialized (select * from found where place = 1 or place <= $2 and coalesce(bytes, 0) <= $3::bigint)
select *, (select count(*) from fitting) < (select count(*) from found) from fitting order by name
