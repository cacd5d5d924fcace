-- No events, but where those begin that are the newest of all, as the page that audit_page begins with. They are at least as
-- many as is asked for, if there are so many.
-- takes AuditRequest: since_us?, limit
-- gives AuditResponse.events: at_us, task_id, token, event, worker, worker_id, attempt, actor, note, .next_page
select null::timestamptz, null::bigint, null::timestamptz, null::text, null::text, null::bigint, null::smallint, null::text,
  null::text, audit_newest(coalesce($1::timestamptz, '-infinity'), $2::bigint::int)
