-- Closes a batch; batch_get then reads it.
-- takes CloseBatchRequest: @request_id, id
select batch_close($1::uuid, $2::bigint)
