-- Returns waiting tasks that are due and match the filter of a Fetch, the highest priorities first. It reads what waits
-- in the queues and of the types that the Fetch accepts. Of queues that give out no tasks, none is in the answer; whether
-- a limit lets a task execute is left to the claim. While the clock is behind the manager's estimate of the time, @estimate is
-- that: it applies as in ready_page.
-- takes FetchRequest: where.queue?, where.type?, where.error?, where.error_contains?, where.error_code?, where.older_ms?,
--   where.newer_ms?, where.batch_id?, where.key?, where.source?, where.statuses, queues, types, exclude_ids, slots, @max_details,
--   where.details[].path, where.details[].value, where.pipeline?, where.stage?, where.parent_id?, @estimate
select id, last_updated, octet_length(details), route_id
from tasks t
where t.lane is null and (t.run_at <= statement_timestamp()
    or t.run_at <= $22 and (t.run_at <= t.last_updated or t.last_updated > statement_timestamp()))
  and t.cancel_requested_at is null and t.route_id = any(array(
    select r.id from routes r left join queues q on q.name = r.queue
    where ($1::text is null or r.queue = $1) and ($2::text is null or r.type = $2)
      and ($12::text[] = '{}' or r.queue = any($12)) and ($13::text[] = '{}' or r.type = any($13))
      and coalesce(q.state, 'running') = 'running' and coalesce(q.waiting_until <= statement_timestamp(), true)))
  and t.status in ('queued', 'failed') and ($11::text[] = '{}' or t.status = any($11))
  and ($3::text is null or t.last_error = $3) and ($4::text is null or strpos(t.last_error, $4) > 0)
  and ($5::text is null or t.error_code = $5)
  and ($6::bigint is null or t.created <= clock_timestamp() - interval '1ms' * $6)
  and ($7::bigint is null or t.created >= clock_timestamp() - interval '1ms' * $7)
  and ($8::bigint is null or t.batch_id = $8) and ($9::text is null or t.key = $9) and ($10::text is null or t.source = $10)
  and ($19::text is null or t.pipeline_id in (select id from pipelines where name = $19)) and ($20::text is null or t.stage = $20)
  and ($21::bigint is null or t.parent_id = $21)
  and t.id <> all($14::bigint[]) and octet_length(t.details) <= $16::bigint
  and (cardinality($17::text[]) = 0 or details_match(t.details, $17, $18::text[]))
order by t.priority desc, t.run_at, t.id limit $15::bigint
