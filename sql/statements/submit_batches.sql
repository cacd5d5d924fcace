-- Before a submit that has to do with batches: which batch each task is in, and whether it is held. Locks them.
--   one element a task: $1 queues, $2 batches asked for or null
select n, batch_id, held from submit_batches($1::text[], $2::bigint[]) order by n
