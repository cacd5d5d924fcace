-- Returns which of these tasks exist, and which of those have ended, by id. One statement, so that a task that moves
-- from one table to the other is not missed. $1 ids.
select id, false as ended from tasks where id = any($1::bigint[])
union all
select task_id, true from task_history where task_id = any($1::bigint[])
order by id
