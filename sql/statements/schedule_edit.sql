-- Changes a schedule. $1 request id, $2 name, $3 what changes as JSON, see schedule_changed, $4 who.
select id from schedule_edit($1::uuid, $2::text, $3::text::jsonb, $4::text)
