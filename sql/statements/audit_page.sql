-- Returns a page of events since a time: tasks, workers, queues and schedules together. The last row has no event; its
-- next_page is where the next page begins, if there is one. The pages end at the time when the first was read, so that
-- they do end while events arrive. `limit`: about how many rows of each kind.
-- takes AuditRequest: page?, since_us?, limit
-- gives AuditResponse.events: at_us, task_id, token, event, worker, worker_id, attempt, actor, note, .next_page
select at, task_id, version, event, worker, worker_id, attempt, actor, note,
  case when split_part(next_page, ':', 2)::bigint < until then next_page || ':' || until end
from (select string_to_array($1::text, ':') as place) p
cross join lateral (select coalesce(place[5]::bigint, time_us(statement_timestamp())) as until) u
cross join lateral audit_page(array_to_string(place[1:4], ':'),
  case when place is null then greatest($2::timestamptz, audit_oldest()) end, $3::bigint::int)
