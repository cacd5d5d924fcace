-- Returns tasks that match a filter and that a change can affect, by id. They are locked, and their conditions checked
-- again on the locked rows, so that the selection holds until the change is made; find_tasks is the same without
-- locks. Ended tasks are searched only if their statuses are requested. However few match, the scan covers a limited
-- range of ids, and the last column is its end, if there are tasks after that. The answer has at least one row.
-- @change is cancel, discard, retry or update; @max_scanned is how many ids the range has.
-- takes TaskFilter: statuses, queue?, type?, error?, error_contains?, error_code?, older_ms?, newer_ms?, running_longer_ms?,
--   batch_id?, key?, source?, after_id, @max_tasks, @change, @max_scanned, details[].path, details[].value, pipeline?, stage?,
--   parent_id?
with stretch as materialized (
  select least((select id from tasks where id > $13 order by id limit 1),
    (select task_id from task_history where task_id > $13 and $1::text[] && '{completed,dead,cancelled}'
     order by task_id limit 1)) + $16::bigint as last),
 live as materialized (
  select id, status from tasks
  where id > $13 and id <= (select last from stretch) and status = any($1::text[])
    and ($2::text is null or queue = $2) and ($3::text is null or type = $3)
    and ($4::text is null or last_error = $4) and ($5::text is null or strpos(last_error, $5) > 0)
    and ($6::text is null or error_code = $6)
    and ($7::bigint is null or created <= clock_timestamp() - interval '1ms' * $7)
    and ($8::bigint is null or created >= clock_timestamp() - interval '1ms' * $8)
    and ($9::bigint is null or status = 'executing' and last_updated <= clock_timestamp() - interval '1ms' * $9)
    and ($10::bigint is null or batch_id = $10) and ($11::text is null or key = $11)
    and ($12::text is null or source = $12)
    and ($19::text is null or pipeline_id in (select id from pipelines where name = $19)) and ($20::text is null or stage = $20)
    and ($21::bigint is null or parent_id = $21)
    and (cardinality($17::text[]) = 0 or details_match(details, $17, $18::text[]))
    and case $15::text
      when 'cancel' then cancel_requested_at is null
      when 'discard' then stop_code is null or cancel_requested_at is null
      when 'retry' then cancel_requested_at is null and restart is distinct from '{}'
        and (status <> 'queued' or blocked_run_at is null and run_at > clock_timestamp())
      else true end
  order by id limit $14::bigint for no key update),
 ended as materialized (
  select task_id as id, status from task_history
  where task_id > $13 and task_id <= (select last from stretch) and status = any($1::text[]) and $1::text[] && '{completed,dead,cancelled}'
    and ($2::text is null or queue = $2) and ($3::text is null or type = $3)
    and ($4::text is null or last_error = $4) and ($5::text is null or strpos(last_error, $5) > 0)
    and ($6::text is null or error_code = $6)
    and ($7::bigint is null or created <= clock_timestamp() - interval '1ms' * $7)
    and ($8::bigint is null or created >= clock_timestamp() - interval '1ms' * $8)
    and $9::bigint is null
    and ($10::bigint is null or batch_id = $10) and ($11::text is null or key = $11)
    and ($12::text is null or source = $12)
    and ($19::text is null or pipeline_id in (select id from pipelines where name = $19)) and ($20::text is null or stage = $20)
    and ($21::bigint is null or parent_id = $21)
    and (cardinality($17::text[]) = 0 or details_match(details, $17, $18::text[]))
  order by task_id limit $14::bigint for update),
 walked as materialized (
  select case when (select id from tasks where id > s.last order by id limit 1) is not null
      or $1::text[] && '{completed,dead,cancelled}'
        and (select task_id from task_history where task_id > s.last order by task_id limit 1) is not null
    then s.last end as walked
  from stretch s)
select m.id, m.status, w.walked
from walked w
left join (select id, status from live union all select id, status from ended order by id limit $14::bigint) m on true
order by m.id
