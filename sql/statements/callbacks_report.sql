-- What is told of a batch. No row: it is not there any more. $1 the batch, $2 the event.
select r from batch_report($1, $2) r where r is not null
