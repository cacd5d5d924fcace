-- Before a submit that has to do with batches: which batch each task is in, and whether it is held. Locks them.
--   one element a task: $1 queues, $2 batches asked for or null, $3 keys of those with versions, or null
select n, batch_id, held from submit_batches($1::text[], $2::bigint[], $3::text[]) order by n
