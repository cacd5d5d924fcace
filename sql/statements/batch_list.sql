-- Batches, newest first. $1 queue or null, $2 only those that have not ended, $3 only ids below this, $4 how many.
select s.* from (
  select id from batches
  where ($1::text is null or queue = $1) and (not $2::boolean or phase <> 'ended') and id < $3
  order by id desc limit $4) b
join batches_shown s on s.id = b.id
order by s.id desc
