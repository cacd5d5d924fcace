-- Starts, stops, pauses, resumes, purges or deletes a queue. $1 request id, $2 queue, $3 action, $4 the actor. Returns
-- its state, and the newest task's id when the call first came.
select state, newest from queue_control($1::uuid, $2::text, $3::text, $4::text)
