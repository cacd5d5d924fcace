-- Returns a page of events from a time on, and before another: tasks, workers, queues, schedules and identities together. The last
-- row has no event; its next_page is where the next page begins, if there is one. The first page sets where the pages
-- end (audit_ends). `limit`: about how many rows of each kind.
-- takes AuditRequest: page?, since_us?, until_us?, limit, queue?, type?, events?, worker?, actor?
-- gives AuditResponse.events: at_us, task_id, token, event, worker, worker_id, attempt, actor, note, .next_page
select at, task_id, version, event, worker, worker_id, attempt, actor, note,
  case when split_part(next_page, ':', 2)::bigint < ends then next_page || ':' || ends end
from (select string_to_array($1::text, ':') as place, coalesce($3::timestamptz, 'infinity') as until) p
cross join lateral (select coalesce(place[5]::bigint, time_us(audit_ends(until))) as ends) e
cross join lateral audit_page(array_to_string(place[1:4], ':'),
  case when place is null then greatest($2::timestamptz, audit_oldest()) end, $4::bigint::int, $5, $6, $7, $8, $9)
where at is null or at < until
