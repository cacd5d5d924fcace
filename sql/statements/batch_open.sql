-- Opens a batch. $1 request id, $2 name, $3 queue; if null, from the queue: $4 callback URL, $5 secret, $6 whether the
-- URL is notified of each task, $7 callback task type, $8 entry type, $9 exit type; $10 source.
select batch_open($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
