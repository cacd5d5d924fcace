-- Starts, stops, pauses, resumes, purges or deletes a queue. Returns its state, and, as `tasks`, the newest task's id when
-- the call first came.
-- takes ControlQueueRequest: @request_id, queue, action, @actor
-- gives ControlQueueResponse: state, tasks
select state, newest from queue_control($1::uuid, $2::text, $3::text, $4::text)
