-- Returns no events, but the page with which audit_page begins at the newest ones: at least `limit` of them, if there
-- are so many.
-- takes AuditRequest: since_us?, until_us?, limit
-- gives AuditResponse.events: at_us, task_id, token, event, worker, worker_id, attempt, actor, note, .next_page
select null::timestamptz, null::bigint, null::timestamptz, null::text, null::text, null::bigint, null::smallint, null::text,
  null::text, audit_newest(coalesce($1::timestamptz, '-infinity'), coalesce($2::timestamptz, 'infinity'), $3::bigint::int)
