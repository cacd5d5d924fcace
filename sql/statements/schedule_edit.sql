-- Changes a schedule. $1 request id, $2 name, $3 the changes as JSON, see schedule_changed, $4 the actor.
select id from schedule_edit($1::uuid, $2::text, $3::text::jsonb, $4::text)
