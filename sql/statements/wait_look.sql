-- Which of these tasks there are, and which of those have ended. One statement, so that none is missed that moves from
-- one table to the other. In the order of their ids. $1 ids.
select id, false as ended from tasks where id = any($1::bigint[])
union all
select task_id, true from task_history where task_id = any($1::bigint[])
order by id
