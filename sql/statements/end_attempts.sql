-- Ends attempts in any way but well, and decides what becomes of each task: failed (tried again after its rest, or at
-- once when the attempt was lost), queued (given back: not counted), dead, or cancelled where that had been asked for.
-- The tasks are looked up by a lateral subquery that OFFSET 0 keeps apart: as a join, a plan made while the table is
-- believed to be empty would walk all of it. The rows are locked first and the decision made on what that returns: two arms testing the row in their WHERE would
-- both miss one that changes while they wait.
-- An attempt that ended with its worker's lease, or never arrived and was taken back, does not count, until that has come
-- to pass for the third time in a row: an answer that never fits, or a task that starves its worker, must not go round
-- for ever. Cancelled without having been asked to is given back.
--   one element an attempt: $1 ids, $2 tokens, $3 outcomes (failed, fatal, returned, lease_ended, cancelled, expired,
--   lost, taken_back), $4 errors, $5 error codes; $6 whether a report says so; $7 days the history keeps what ends
with locked as materialized (
  select t.*, case when u.outcome = 'cancelled' and t.cancel_requested_at is null then 'returned' else u.outcome end
    as outcome, u.error, u.code
  from (
    select distinct on (id, token) * from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::text[], $5::text[])
      u(id, token, outcome, error, code) order by id, token) u
  cross join lateral (
    select * from tasks t
    where t.id = u.id and t.last_updated = u.token and t.status = 'executing'
      and (u.outcome <> 'expired' or t.expiry <= clock_timestamp())
    offset 0 for no key update) t),
 decided as materialized (
  select l.*, greatest(clock_timestamp(), l.last_updated + interval '1us') as version,
    case
      when l.cancel_requested_at is not null then 'cancelled'
      when l.outcome = 'fatal' then 'dead'
      when l.outcome = 'returned' or l.outcome in ('lease_ended', 'taken_back') and l.returns < 2 then 'queued'
      when l.attempt >= l.max_attempts then 'dead'
      else 'failed' end as becomes
  from locked l),
 timed as materialized (
  select d.*, case
      when becomes = 'failed' and outcome in ('failed', 'lease_ended', 'taken_back') then version + interval '1ms' *
        (least(retry_max_ms, retry_base_ms * power(2::float8, least(attempt - 1, 60))) * (0.75 + 0.25 * random()))
      else version end as due
  from decided d),
 again as (
  update tasks t set status = d.becomes, run_at = d.due, last_updated = d.version,
    attempt = case when d.becomes = 'queued' then d.attempt - 1 else d.attempt end,
    assignment_id = null, expiry = null, first_started = coalesce(t.first_started, t.last_updated),
    started = t.last_updated,
    returns = case when d.outcome in ('lease_ended', 'taken_back') then least(t.returns + 1, 3)
      when d.outcome = 'returned' then t.returns else 0 end,
    last_error = case when d.becomes = 'failed' then d.error else t.last_error end,
    error_code = case when d.becomes = 'failed' then d.code else t.error_code end
  from timed d where d.becomes in ('failed', 'queued') and t.id = any(array[d.id])),
 gone as (
  delete from tasks t using timed d where d.becomes in ('dead', 'cancelled') and t.id = any(array[d.id])),
 history as (
  insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt,
    max_attempts, timeout_ms, retry_base_ms, retry_max_ms, worker_id, assignment_id, token, by_report, lane, batch_id,
    key, source, result, last_error, error_code, first_started, started, created, last_updated)
  select (select (statement_timestamp() at time zone 'UTC')::date + 1 + $7::int), id, route_id, priority, queue, type,
    details, becomes, run_at, attempt, max_attempts, timeout_ms, retry_base_ms, retry_max_ms, worker_id,
    assignment_id, last_updated, $6::boolean, lane, batch_id, key, source, null,
    error, code,
    coalesce(first_started, last_updated), last_updated, created, version
  from timed where becomes in ('dead', 'cancelled')),
 attempts as (
  insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, error,
    error_code, run_at, last_updated)
  select id, last_updated, attempt, worker_id, assignment_id, outcome, becomes, $6::boolean, error, code, due, version
  from timed where becomes in ('failed', 'queued')),
 lowered as (
  update assignments a set open = a.open - e.n, closed_at = case when a.open = e.n then clock_timestamp() end
  from (select assignment_id, count(*)::int as n from timed group by 1 order by 1) e
  where a.id = any(array[e.assignment_id])),
 told as (
  insert into task_events (task_id, version, event, worker_id, note)
  select d.id, d.version, 'reclaimed', d.worker_id,
    d.outcome || '; last heartbeat of worker ' || coalesce(w.name, '?') || ' at ' || coalesce(w.hb_at::text, 'unknown')
  from timed d left join workers w on w.id = any(array[d.worker_id]) where d.outcome in ('expired', 'lost')),
 kept_keys as (
  update keys k set expires_at = clock_timestamp() + interval '1 day'
  from (select queue, key, id from timed where becomes in ('dead', 'cancelled') and key is not null) d
  where k.queue = any(array[d.queue]) and k.key = any(array[d.key]) and k.task_id = d.id and k.expires_at is null)
select id, last_updated as token, becomes, due, version, route_id, priority from timed
