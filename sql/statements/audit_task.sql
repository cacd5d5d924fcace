-- A page of the story of one task, in order; the last row has no event, but tells behind which event the next page begins, if there may
-- be one: its version, place and time, and which of those with the same it is.
-- $1 id, $2 not before this time, $3 how many, $4 behind which event, or null, $5 no events, but behind which the newest $3 begin
with story as materialized (
  select a.*, row_number() over (partition by version, place, at order by event, actor, note) as tie
  from audit_log a where task_id = $1 and at >= $2),
behind as (select string_to_array($4::text, ':')::bigint[] as key),
page as materialized (
  select s.* from story s, behind
  where not $5::boolean and ($4 is null or (version, place, at, tie) > (us_time(key[1]), key[2], us_time(key[3]), key[4]))
  order by version, place, at, tie limit $3),
next as (
  (select version, place, at, tie from page order by version, place, at, tie offset $3 - 1)
  union all
  (select version, place, at, tie from story where $5 order by version desc, place desc, at desc, tie desc offset $3 limit 1))
select e.at, e.task_id, e.version, e.event, w.name, e.worker_id, e.attempt, e.actor, left(e.note, 1000), e.next_page
from (
  select *, null::text as next_page from page
  union all
  select null, null, null, null, null, null, null, null, null, null, null,
    coalesce((select concat_ws(':', time_us(version), place, time_us(at), tie) from next), '0:0:0:0')
  where exists (select from next) or $5 and exists (select from story)) e
left join workers w on w.id = e.worker_id
order by e.version, e.place, e.at, e.tie
