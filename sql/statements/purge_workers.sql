-- Deletes incarnations that are long gone and have no tasks. $1 the retention in days, if no queue or manager has a
-- longer one. (ORDER BY keeps each search for an open row to its index, however few workers the journal's rows belong
-- to.)
with gone as (
 delete from workers where id = any(array(
  select w.id from workers w
  where w.gone_at < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1) and w.lost
    and not exists (select from assignments a where a.worker_id = w.id and a.closed_at is null order by a.fetch_id offset 0 limit 1)
  order by w.gone_at limit 5000)) returning id)
delete from worker_counts where worker_id = any(array(select id from gone))
