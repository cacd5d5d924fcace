-- Opens a batch. What is null is as its queue has it.
-- takes OpenBatchRequest: @request_id, name, queue?, callback_url?, callback_secret?, callback_tasks, callback_type?, entry_type?,
--   exit_type?, @actor, callback_attempts
-- gives OpenBatchResponse: id
select batch_open($1::uuid, $2::text, coalesce($3::text, 'default'), $4::text, $5::text, $6::boolean, $7::text, $8::text, $9::text,
  $10::text, $11::boolean)
