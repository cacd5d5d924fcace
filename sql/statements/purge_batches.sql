-- Deletes from one page of batches, from a place on, those that have ended and whose tasks are all gone, with their
-- callbacks and workers' counts. Returns how many, and the page's end; null where batches begin that are too young to be deleted.
--   $1 the retention in days, if neither their queue sets it nor another manager has a longer one; the place:
--   $2 unused, $3 id
with page as materialized (
  select id, queue, phase, created, ended_at from batches where id > $3 order by id limit 500),
 old as (
  select p.id from page p left join queues q on q.name = p.queue
  where p.phase = 'ended' and p.ended_at < statement_timestamp() - interval '1 day' * (1 + greatest(
      coalesce(q.keep_completed_hours / 24, (select history_keep($1::int))), coalesce(q.keep_dead_hours / 24, (select history_keep($1::int))), coalesce(q.keep_cancelled_hours / 24, (select history_keep($1::int)))))
    and not exists (select from tasks t where t.batch_id = p.id offset 0 limit 1)
    and not exists (select from task_history h where h.batch_id = p.id offset 0 limit 1)
    and not exists (select from callbacks c where c.batch_id = p.id and c.state = 'waiting' offset 0 limit 1)),
 gone as (delete from batches where id = any(array(select id from old)) returning id),
 callbacks_gone as (delete from callbacks where batch_id = any(array(select id from gone))),
 counts as (delete from worker_counts where batch_id <> 0 and batch_id = any(array(select id from gone)))
select (select count(*) from gone), $2::timestamptz, (
  select max(id) from page having count(*) = 500 and bool_or(created < statement_timestamp() - interval '1 day'))
