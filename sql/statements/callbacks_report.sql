-- Returns the report of a batch. No row: the batch does not exist any more. $1 the batch, $2 the event.
select r from batch_report($1, $2) r where r is not null
