-- One batch. $1 its id.
select * from batches_shown where id = $1
