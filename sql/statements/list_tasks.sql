-- Lists tasks that match a filter, newest first. However few match, up to $21 live and $21 ended tasks are checked; the
-- last column is the id below which there may be more (0: there are none), in one row without a task if none was found.
-- The answer has at least one task, if there is one, and then as many as fit into $20 bytes. tasks_waiting finds why
-- each waits.
-- Up to @max_scanned rows of each table are checked, of live tasks all ($22 is 1), or only executing ones (2), which the
-- journal has.
-- takes ListRequest: status, queue?, type?, before_id, limit, filter.statuses?, filter.queue?, filter.type?, filter.error?,
--   filter.error_contains?, filter.error_code?, filter.older_ms?, filter.newer_ms?, filter.running_longer_ms?,
--   filter.batch_id?, filter.key?, filter.source?, filter.after_id, @ended_wanted, @max_bytes, @max_scanned, @live_wanted,
--   @max_details, filter.details[].path, filter.details[].value, filter.pipeline?, filter.stage?, filter.parent_id?
-- gives ListResponse.tasks: [task], waiting.[waiting], .next_before_id
with held as materialized ( -- executing ones, by the journal
  select distinct x.id from assignments a cross join lateral unnest(a.task_ids) x(id)
  where $22::int = 2 and a.closed_at is null and x.id < $4 and x.id > $18 order by x.id desc limit $21),
 live as materialized (
  select id, {shown}, last_error,
    error_code, worker_id, last_updated, created,
    case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
    case when status = 'executing' then last_updated else started end as started, null::timestamptz as ended,
    expiry, cancel_requested_at is not null as cancel_requested, remark, batch_id, version,
    pipeline_id, stage, step, null::boolean as recoverable, case when cardinality($24::text[]) > 0 then details end as searched
  from (
    (select * from tasks where $22::int = 1 and $15::bigint is null and id < $4 and id > $18 order by id desc limit $21)
    union all
    (select * from tasks where $22::int = 1 and batch_id = $15::bigint and id < $4 and id > $18 order by id desc limit $21)
    union all
    (select t.* from held h cross join lateral (select * from tasks where id = h.id offset 0) t)) t),
 ended as materialized (
  select task_id as id, {shown}, last_error,
    error_code, worker_id, last_updated, created, first_started, started, last_updated as ended, null::timestamptz as expiry,
    false as cancel_requested, remark, batch_id, version, pipeline_id, stage, step, recoverable,
    case when cardinality($24::text[]) > 0 then details end as searched
  from (
    (select * from task_history where $19::boolean and $15::bigint is null and task_id < $4 and task_id > $18
     order by task_id desc limit $21)
    union all
    (select * from task_history where $19::boolean and batch_id = $15::bigint and task_id < $4 and task_id > $18
     order by task_id desc limit $21)) h),
 -- The lowest id down to which both tables have been read.
 checked as materialized (
  select greatest((select min(id) from (select id from live where $22::int <> 2 union all select id from held) x having count(*) >= $21),
    (select min(id) from ended having count(*) >= $21), 0) as down_to),
 found as materialized (
  select * from (select * from live union all select * from ended) t
  where id >= (select down_to from checked)
    and ($1::text is null or status = $1) and ($2::text is null or queue = $2) and ($3::text is null or type = $3)
    and ($6::text[] is null or status = any($6)) and ($7::text is null or queue = $7) and ($8::text is null or type = $8)
    and ($9::text is null or last_error = $9) and ($10::text is null or strpos(last_error, $10) > 0)
    and ($11::text is null or error_code = $11)
    and ($12::bigint is null or created <= statement_timestamp() - interval '1ms' * $12)
    and ($13::bigint is null or created >= statement_timestamp() - interval '1ms' * $13)
    and ($14::bigint is null or status = 'executing' and last_updated <= statement_timestamp() - interval '1ms' * $14)
    and ($15::bigint is null or batch_id = $15) and ($16::text is null or key = $16)
    and ($17::text is null or source = $17)
    and ($26::text is null or pipeline_id in (select id from pipelines where name = $26)) and ($27::text is null or stage = $27)
    and ($28::bigint is null or parent_id = $28)
    and (cardinality($24::text[]) = 0 or details_match(searched, $24, $25::text[]))
  order by id desc limit $5),
 fitting as materialized (
  select * from (
    select f.*, row_number() over w as place, sum(300 + (octet_length(row({shown})::text) + coalesce(least(octet_length(last_error), 800), 0)
      + coalesce(least(octet_length(remark), 800), 0) + coalesce(octet_length(error_code), 0))) over w as bytes
    from found f window w as (order by id desc)) x
  where place = 1 or bytes <= $20::bigint),
 waits as materialized (
  select tasks_waiting(array(select case when status in ('queued', 'failed') then id end from fitting order by place),
    $23::bigint) as reasons)
select t.id, t.{shown},
  null::text as details, null::text as result, left(t.last_error, 200), t.error_code, w.name as worker, t.last_updated, t.created,
  t.first_started, t.started, t.ended, t.expiry, t.cancel_requested, left(t.remark, 200), null::text as stack_trace, t.batch_id,
  t.version as key_version, p.name as pipeline, t.stage, t.step, r.error_count, r.recoverable, r.processing_ms, r.last_failed,
  (select reasons from waits)[t.place::int][1] as reason, (select reasons from waits)[t.place::int][2] as waits_for,
  (select reasons from waits)[t.place::int][3] as workers, (select reasons from waits)[t.place::int][4] as slots,
  (select reasons from waits)[t.place::int][5] as busy,
  case when (select count(*) from fitting) < (select count(*) from found) or (select count(*) from found) = $5
    then (select min(id) from fitting) else l.down_to end as next_before
from checked l
left join fitting t on true
left join workers w on w.id = t.worker_id left join pipelines p on p.id = t.pipeline_id
left join lateral attempts_summary(t.id, t.status, t.last_error, t.recoverable, t.started, t.ended) r on true
order by t.id desc
