-- Before a submit that has to do with batches: which batch each task is in, whether it is held, and whether the batch
-- begins with it. Locks them.
--   one element a task: $1 queues, $2 batches asked for or null, $3 keys of those with versions, or null
select n, batch_id, held, begins from submit_batches($1::text[], $2::bigint[], $3::text[]) order by n
