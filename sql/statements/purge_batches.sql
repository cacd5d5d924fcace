-- Forgets batches that have ended and whose tasks are all gone, with their callbacks. $1 days the history keeps tasks, if their
-- queue does not say.
with gone as (
  delete from batches where id in (
    select b.id from batches b left join queues q on q.name = b.queue
    where b.phase = 'ended' and b.ended_at < statement_timestamp() - interval '1 day' * (1 + greatest(
        coalesce(q.keep_completed_days, $1::int), coalesce(q.keep_dead_days, $1::int), coalesce(q.keep_cancelled_days, $1::int)))
      and not exists (select from tasks t where t.batch_id = b.id)
      and not exists (select from task_history h where h.batch_id = b.id)
      and not exists (select from callbacks c where c.batch_id = b.id and c.state = 'waiting')
    order by b.id limit 500)
  returning id),
 told as (delete from callbacks c using gone g where c.batch_id = g.id)
select id from gone
