-- Batches, newest first. The open ones of a queue are looked for among $5 at most; the last column tells below which id there may
-- be more (0: there are none), in one row without a batch if none was found.
--   $1 queue or null, $2 only those that have not ended, $3 only ids below this, $4 how many
with looked as materialized (
  (select id, queue from batches where $1::text is null and not $2::boolean and id < $3 order by id desc limit $4)
  union all
  (select id, queue from batches where queue = $1 and not $2::boolean and id < $3 order by id desc limit $4)
  union all
  (select id, queue from batches where $2::boolean and phase <> 'ended' and id < $3
   order by id desc limit case when $1 is null then $4::bigint else $5::bigint end)),
 found as materialized (select id from looked where $1::text is null or queue = $1 order by id desc limit $4)
select s.*, n.next_before
from (
  select case when (select count(*) from found) = $4 then (select min(id) from found)
    when (select count(*) from looked) >= $5 then (select min(id) from looked) else 0 end as next_before) n
left join (found f join batches_shown s on s.id = f.id) on true
order by s.id desc
