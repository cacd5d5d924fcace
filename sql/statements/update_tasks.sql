-- Changes live tasks, and returns them (tasks_update).
--   $1 ids, $2 the new values as JSON, $3 actor
select id, status, refused, version, run_at, route_id, priority from tasks_update($1::bigint[], $2::text::jsonb, $3::text)
