-- Which of these tasks have ended. $1 ids.
select task_id from task_history where task_id = any($1::bigint[])
