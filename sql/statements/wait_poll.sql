-- Returns which of these tasks exist, and which of those have ended, by id. One statement, so that a task that moves
-- from one table to the other is not missed. Most tasks that a call waits for have not ended: the history, with an index
-- in each partition, is read for the others alone. $1 ids.
with alive as materialized (select id from tasks where id = any($1::bigint[]))
select id, false as ended from alive
union all
select task_id, true from task_history
where task_id = any(array(select unnest($1::bigint[]) except select id from alive))
order by id
