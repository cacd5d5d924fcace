-- Deletes events from one page of the tasks' old ones, from a place on, like purge_attempts.sql.
--   $1 the retention in days, if no queue or manager has a longer one; the place: $2 at, $3 id
with page as materialized (
  select id, task_id, at from task_events
  where at < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1) and (at, id) > ($2, $3)
  order by at, id limit 5000),
 kept as materialized (
  select task_id, (select n.id from task_events n where n.task_id = p.task_id order by n.id desc offset 99 limit 1) as since
  from (select distinct task_id from page) p),
 old as (
  select p.id from page p join kept k on k.task_id = p.task_id
  where p.id < k.since
    or not exists (select from tasks t where t.id = p.task_id offset 0 limit 1)
      and not exists (select from task_history h where h.task_id = p.task_id offset 0 limit 1)),
 gone as (
  delete from task_events where id = any(array(select id from old)) returning 1)
select (select count(*) from gone), p.at, p.id
from (select max(at) as at, count(*) as n from page) x
left join lateral (select * from page p where p.at = x.at and x.n = 5000 order by id desc limit 1) p on true
