-- Changes settings of a queue. @change has new values of columns.
-- takes SetQueueRequest: @request_id, queue, @change, @actor
-- gives SetQueueResponse: settings.[queue_settings]
select d.* from queue_set($1::uuid, $2::text, $3::text::jsonb, $4::text) q cross join lateral queue_shown(q) d
