-- After a submit that met taken keys: returns their tasks. A separate statement, because the submitting one began
-- before the winner had committed. $1 queues, $2 keys, $3 the names of submitters that may only use keys of their own tasks,
-- or null.
select n, task_id, version from key_owners($1::text[], $2::text[], $3::text[]) order by n
