-- How tasks stand, live or ended. $1 ids.
select id, status, cancel_requested from all_tasks where id = any($1::bigint[])
