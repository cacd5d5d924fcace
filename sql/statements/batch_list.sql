-- Lists batches, newest first. The open batches of a queue are searched among up to $5; the last column is the id below
-- which there may be more (0: there are none), in one row without a batch if none was found. After a batch's columns
-- come its first waiting task, and why it waits (tasks_waiting): its entry or exit task, or one of its first 20 live
-- tasks. `between`, because with `=` the planner may scan the batches of all queues, newest first, if it takes the
-- queue for a frequent one.
-- takes ListBatchesRequest: queue?, open_only, before_id, limit, @max_scanned, @max_details
-- gives ListBatchesResponse.batches: [batch], [first_waiting], .next_before_id
with scanned as materialized (
  (select id, queue from batches where $1::text is null and not $2::boolean and id < $3 order by id desc limit $4)
  union all
  (select id, queue from batches where queue between $1 and $1 and not $2::boolean and id < $3 order by queue desc, id desc limit $4)
  union all
  (select id, queue from batches where $2::boolean and phase <> 'ended' and id < $3
   order by id desc limit case when $1 is null then $4::bigint else $5::bigint end)),
 found as materialized (select id from scanned where $1::text is null or queue = $1 order by id desc limit $4),
 firsts as materialized (
  select f.id as batch_id, x.id, x.run_at, x.attempt, row_number() over () as place
  from found f cross join lateral (
    select y.* from batches b cross join lateral (
      (select id, run_at, attempt, status, 0 as place from tasks where id = any(array[b.entry_id, b.exit_id]))
      union all
      (select id, run_at, attempt, status, 1 from tasks where batch_id = b.id order by id limit 20)) y
    where b.id = f.id and b.phase <> 'ended' and y.status in ('queued', 'failed')
    order by y.place, y.id limit 1) x),
 waits as materialized (select tasks_waiting(array(select id from firsts order by place), $6::bigint) as reasons)
select s.*, w.id as first_waiting, w.run_at, w.attempt, (select reasons from waits)[w.place::int][1] as reason,
  (select reasons from waits)[w.place::int][2] as waits_for, (select reasons from waits)[w.place::int][3] as workers,
  (select reasons from waits)[w.place::int][4] as slots, (select reasons from waits)[w.place::int][5] as busy, n.next_before
from (
  select case when (select count(*) from found) = $4 then (select min(id) from found)
    when (select count(*) from scanned) >= $5 then (select min(id) from scanned) else 0 end as next_before) n
left join (found f cross join lateral (select * from batches_shown b where b.id = f.id offset 0) s
  left join firsts w on w.batch_id = f.id) on true
order by s.id desc
