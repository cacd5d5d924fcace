-- Ends attempts, and decides what becomes of each task: failed (retried after its backoff, or at once if the attempt
-- was lost), queued (returned: the attempt does not count), dead, or cancelled if that was requested. Successful
-- attempts are here only if something may follow: a newer version, or a pipeline's next stage. complete ends the
-- others.
-- The tasks are looked up by a lateral subquery that OFFSET 0 keeps separate: with a join, a plan made while the table
-- is believed to be empty would scan all of it. The rows are locked first, and the decision is made on what that
-- returns: two arms that test the row in their WHERE would both miss one that changes while they wait.
-- An attempt that ended with its worker's lease, or never arrived and was requeued, does not count, until that has
-- happened for the third time in a row: an answer that never fits, or a task that starves its worker, must not repeat
-- for ever. An attempt that was cancelled without a request is returned.
-- The task keeps the reason of a cancel or discard as its error; of a discard also the code. Tasks that end leave by
-- tasks_end.
-- The permits of each attempt are returned, then the journal's rows are locked, before `gone` locks batches: the order of
-- complete_all.
-- A task with a newer version is queued again as that version describes it, however this attempt ended, even with
-- success; it is blocked if the batch that it has joined with that version has not begun. A task that was to be started
-- over is queued again unless the attempt completed. One that hung (restart_mark) fails with the error `hanged` if its
-- attempt was stopped.
-- A task that has completed a stage of its pipeline is queued again for the next one, with its result as the input,
-- unless a cancel was requested. After the last stage it is completed, whatever was requested.
--   one element per attempt: $1 ids, $2 tokens, $3 outcomes (failed, fatal, returned, lease_ended, cancelled, expired,
--   lost, requeued, completed), $4 errors, $5 error codes; $6 whether a report ended them; $7 the retention in days
--   of what ends if its queue does not set it; or null, or one element per attempt: $8 remarks, $9 stacks, $10 retry
--   delays in ms that the handlers requested, $11 results, $12 the stages chosen by the handlers
with locked as materialized (
  select t.*, case when hung then 'failed' when u.outcome = 'cancelled' and t.cancel_requested_at is null then 'returned'
      else u.outcome end as outcome,
    case when hung then 'hanged' else u.error end as error, case when hung then 'hanged' else u.code end as code, u.new_remark, u.trace, u.rest, u.result, u.chosen
  from (
    select distinct on (id, token) * from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::text[], $5::text[],
      $8::text[], $9::text[], $10::bigint[], $11::text[], $12::text[])
      u(id, token, outcome, error, code, new_remark, trace, rest, result, chosen) order by id, token) u
  cross join lateral (
    select * from tasks t
    where t.id = u.id and t.last_updated = u.token and t.status = 'executing'
      and (u.outcome <> 'expired' or t.expiry <= clock_timestamp())
      and (u.outcome <> 'completed' or t.restart <> '{}' or t.pipeline_id is not null or u.chosen is not null)
    offset 0 for no key update) t
  cross join lateral (select t.stop_code = 'hanged' and t.cancel_requested_at is null and t.restart is null
    and u.outcome in ('cancelled', 'returned', 'lease_ended') as hung) h),
 followed as materialized (
  select l.*, n.next, n.error as wrong, n.code as wrong_code, coalesce(l.restart <> '{}', false) as renewed
  from locked l left join lateral (
    select * from pipeline_next(l.pipeline_id, l.stage, l.step, l.chosen) where l.outcome = 'completed' offset 0) n on true),
 decided as materialized (
  select l.*, greatest(clock_timestamp(), l.last_updated + interval '1us') as ended,
    next is not null and not renewed and (l.cancel_requested_at is null or l.restart is not null) as advances,
    case
      when l.outcome = 'completed' and next is null and wrong is null and not renewed then 'completed'
      when l.restart is not null or next is not null and l.cancel_requested_at is null then 'queued'
      when l.cancel_requested_at is not null then case when l.stop_code is not null then 'dead' else 'cancelled' end
      when l.outcome = 'fatal' or wrong is not null then 'dead'
      when l.outcome = 'returned' or l.outcome in ('lease_ended', 'requeued') and l.returns < 2 then 'queued'
      when l.attempt >= l.max_attempts then 'dead'
      else 'failed' end as becomes,
    case when l.outcome = 'completed' and next is null and wrong is null then l.error_code
      when l.cancel_requested_at is not null and l.restart is null then coalesce(l.stop_code, l.code)
      else coalesce(wrong_code, l.code) end as ends_code,
    case when l.outcome = 'completed' and next is null and wrong is null then l.last_error
      when l.cancel_requested_at is not null and l.restart is null
      then coalesce((select (array_agg(e.note order by e.id desc))[1] from task_events e
        where e.task_id = l.id and e.note <> ''
          and e.event = case when l.stop_code is null then 'cancel_requested' else 'discard_requested' end), l.error)
      else coalesce(wrong, l.error) end as ends_error
  from followed l),
 timed as materialized (
  select d.*, case
      when renewed then greatest(ended, (restart ->> 'run_at')::timestamptz)
      when becomes = 'failed' and outcome in ('failed', 'lease_ended', 'requeued') then ended + interval '1ms' *
        coalesce(rest::float8, retry_delay_ms(retry_policy, retry_base_ms, retry_max_ms, attempt) *
          (1 - retry_jitter(retry_policy) * random()))
      else ended end as due,
    case when renewed then coalesce(nullif((restart ->> 'route_id')::int, 0), route_of(restart ->> 'queue', restart ->> 'type'))
      when advances then route_of(coalesce(next ->> 'queue', queue), next ->> 'type') else route_id end as new_route,
    case when renewed then (restart ->> 'priority')::int when advances then coalesce((next ->> 'priority')::int, priority)
      else priority end as new_priority,
    case when renewed and batch_id is not null then coalesce((
      select b.entry_type is not null and b.phase in ('new', 'entry') and d.id is distinct from b.entry_id
      from batches b where b.id = d.batch_id), false) else false end as blocked
  from decided d),
 again as (
  update tasks t set status = d.becomes, run_at = d.due, last_updated = d.ended,
    attempt = case when d.renewed then 0 when d.becomes = 'queued' then greatest(d.attempt - 1, 0) else d.attempt end,
    assignment_id = null, permits = null, expiry = null, first_started = coalesce(t.first_started, t.last_updated),
    started = t.last_updated,
    returns = case when d.renewed then 0
      when d.outcome in ('lease_ended', 'requeued') then least(t.returns + 1, 3)
      when d.outcome = 'returned' then t.returns else 0 end,
    last_error = case when d.renewed then null when d.becomes = 'failed' then d.error else t.last_error end,
    error_code = case when d.renewed then null when d.becomes = 'failed' then d.code else t.error_code end,
    stack_trace = case when d.renewed then null when d.becomes = 'failed' then d.trace else t.stack_trace end,
    remark = coalesce(d.new_remark, t.remark), restart = null, cancel_requested_at = null, stop_code = null,
    retrying = case when d.becomes = 'failed' then true end
  from timed d where d.becomes in ('failed', 'queued') and not d.renewed and not d.advances and t.id = any(array[d.id])),
 renewed as (
  update tasks t set status = 'queued', run_at = case when d.blocked then 'infinity' else d.due end,
    blocked_run_at = case when d.blocked then d.due end, last_updated = d.ended, attempt = 0, assignment_id = null,
    permits = null, expiry = null, first_started = coalesce(t.first_started, t.last_updated), started = t.last_updated, returns = 0,
    last_error = null, error_code = null, stack_trace = null, remark = coalesce(d.new_remark, t.remark), cancel_requested_at = null,
    stop_code = null, restart = null, retrying = null, route_id = d.new_route,
    ({renewed}) = (select {renewed} from task_of_spec(d.restart))
  from timed d where d.renewed and t.id = any(array[d.id])),
 advanced as (
  update tasks t set status = 'queued', run_at = d.due, last_updated = d.ended, attempt = 0, assignment_id = null,
    permits = null, expiry = null, first_started = coalesce(t.first_started, t.last_updated), started = t.last_updated, returns = 0,
    last_error = null, error_code = null, stack_trace = null, remark = coalesce(d.new_remark, t.remark), restart = null, stop_code = null,
    retrying = null, route_id = d.new_route, priority = d.new_priority, queue = coalesce(d.next ->> 'queue', t.queue), type = d.next ->> 'type',
    details = coalesce(d.result, ''),
    max_attempts = (d.next ->> 'max_attempts')::int, timeout_ms = (d.next ->> 'timeout_ms')::bigint,
    retry_base_ms = (d.next ->> 'retry_base_ms')::bigint, retry_max_ms = (d.next ->> 'retry_max_ms')::bigint,
    retry_policy = d.next -> 'retry_policy', stage = d.next ->> 'name', step = t.step + 1
  from timed d where d.advances and t.id = any(array[d.id])),
 counted as (
  insert into count_changes (route_id, due, live, retrying)
  select v.route_id, v.due, sum(v.live), sum(v.retrying)
  from timed t cross join lateral (values
    (t.route_id, delayed_to(t.retrying, t.run_at, t.last_updated), -1, case when t.retrying then -1 else 0 end),
    (t.new_route, case when t.becomes = 'queued' then delayed_to(case when t.blocked then 'infinity' else t.due end, t.ended) end, 1, case when t.becomes = 'failed' then 1 else 0 end))
    v(route_id, due, live, retrying)
  where t.becomes in ('failed', 'queued') group by 1, 2 having sum(v.live) <> 0 or sum(v.retrying) <> 0),
 attempts as (
  insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, error,
    error_code, run_at, last_updated, result, remark, stack_trace, stage, queue, type, details)
  select id, last_updated, attempt, worker_id, assignment_id, outcome, becomes, $6::boolean, error, code, due, ended, result,
    new_remark, trace, stage, queue, type, case when advances then details end
  from timed where becomes in ('failed', 'queued')),
 returned as (
  update limits l set taken = l.taken - p.n
  from (select x.id, count(*)::int as n from timed cross join unnest(permits) x(id) group by 1 order by 1) p
  where l.id = any(array[p.id]) returning l.id),
 attempted as (
  insert into callbacks (batch_id, task_id, event, url, secret, payload)
  select * from batch_events((
    select jsonb_agg(jsonb_build_object('event', 'attempt_end', 'batch_id', d.batch_id, 'id', d.id, 'type', d.type,
      'status', d.becomes, 'attempt', d.attempt, 'error', left(d.error, 1000), 'error_code', d.code, 'remark', d.new_remark, 'worker_id', d.worker_id,
      'details', case when d.fits then d.details end, 'result', case when d.fits then coalesce(d.result, '') end,
      'omitted', case when not d.fits then true end, 'started_at', d.last_updated, 'ended_at', d.ended, 'run_at', d.due)
      order by d.id)
    from (
      select d.*,
{part fits} as fits
      from timed d cross join lateral (
        select octet_length(d.details) + coalesce(octet_length(d.result), 0) as bytes from batches b
        where b.id = d.batch_id and b.callback_attempts and d.id is distinct from b.entry_id and d.id is distinct from b.exit_id offset 0) c
      where d.becomes in ('failed', 'queued') and d.outcome <> 'requeued' and d.batch_id is not null) d), 'attempt_end')
  returning id),
 lowered as (
  update assignments a set open = a.open - e.n, closed_at = case when a.open = e.n then clock_timestamp() end
  from (select assignment_id, count(*)::int as n from timed group by 1 order by 1) e
  where a.id = any(array[e.assignment_id]) returning a.id),
 events as (
  insert into task_events (task_id, version, event, worker_id, note)
  select d.id, d.ended, 'reclaimed', d.worker_id,
    d.outcome || '; last heartbeat of worker ' || coalesce(w.name, '?') || ' at ' || coalesce(time_text(w.hb_at), 'unknown')
  from timed d left join workers w on w.id = any(array[d.worker_id]) where d.outcome in ('expired', 'lost')
  union all
  select d.id, d.ended, 'restarted', null, case when d.renewed then 'version ' || (d.restart ->> 'version')
    else 'was retried manually' end
  from timed d where d.becomes = 'queued' and d.restart is not null and not d.advances
  union all
  select d.id, d.ended, 'stage', null, format('%s -> %s', d.stage, d.next ->> 'name') from timed d where d.advances),
 gone as materialized (
  select tasks_end(array(
    select (id, becomes, ended, $6::boolean, case when outcome = 'completed' then result end, ends_error, ends_code,
      coalesce(new_remark, remark), case when becomes = 'completed' then stack_trace else trace end,
      case when becomes = 'dead' and (stop_code is null or cancel_requested_at is null) then outcome <> 'fatal' and wrong is null end)::task_end
    from timed where becomes in ('dead', 'cancelled', 'completed')), $7::int)
  where (select count(*) from returned) >= 0 and (select count(*) from lowered) >= 0
    and exists (select from timed where becomes in ('dead', 'cancelled', 'completed')))
select id, last_updated as token, becomes, case when blocked then 'infinity' else due end as due, ended as version, new_route as route_id, new_priority as priority,
  batch_id is not null and (becomes in ('dead', 'cancelled', 'completed') or exists (select from attempted)) as batched, attempt
from timed left join gone on true
