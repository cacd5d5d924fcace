-- Closes a batch. $1 request id, $2 the batch.
select batch_close($1, $2)
