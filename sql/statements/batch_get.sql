-- takes CloseBatchRequest: id
-- gives CloseBatchResponse: batch.[batch]
select * from batches_shown where id = $1
