-- Pauses, resumes or removes a schedule. $1 request id, $2 name, $3 action, $4 the actor.
select id from schedule_control($1::uuid, $2::text, $3::text, $4::text)
