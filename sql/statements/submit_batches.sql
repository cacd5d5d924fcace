-- Before a submit that involves batches: returns which batch each task is in, whether it is blocked, and whether the
-- batch begins with it. Locks them.
--   $1 the call's request id; then one element per task: $2 queues, $3 requested batches or null, $4 keys of those with
--   versions, or null
select n, batch_id, blocked, begins from submit_batches($1::uuid, $2::text[], $3::bigint[], $4::text[]) order by n
