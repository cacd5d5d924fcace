-- Deletes attempts from one page of old ones, from a place on: those of tasks that no table has any more, and of the
-- other tasks all but the last hundred of each, since a task whose key runs repeatedly is never gone. Returns how many,
-- and the page's end; null if there is no more. The last hundred are looked up once per task: a lookup for each row
-- could read all later attempts of its task.
--   $1 the retention in days, if no queue or manager has a longer one; the place: $2 last_updated, $3 task
with page as materialized (
  select task_id, token, last_updated from task_attempts
  where last_updated < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1)
    and (last_updated, task_id) > ($2, $3)
  order by last_updated, task_id limit 5000),
 kept as materialized (
  select task_id, (select n.token from task_attempts n where n.task_id = p.task_id order by n.token desc offset 99 limit 1) as since
  from (select distinct task_id from page) p),
 old as (
  select p.task_id, p.token from page p join kept k on k.task_id = p.task_id
  where p.token < k.since
    or not exists (select from tasks t where t.id = p.task_id offset 0 limit 1)
      and not exists (select from task_history h where h.task_id = p.task_id offset 0 limit 1)),
 gone as (
  delete from task_attempts where (task_id, token) in (select task_id, token from old) returning 1)
select (select count(*) from gone), p.last_updated, p.task_id
from (select max(last_updated) as last_updated, count(*) as n from page) x
left join lateral (select * from page p where p.last_updated = x.last_updated and x.n = 5000 order by task_id desc limit 1) p on true
