-- Ends attempts that completed like complete, also of tasks in batches, under limits, and with remarks; it gets what
-- complete left. For a task in a batch it updates the batch's counts and creates the callbacks. Permits are returned,
-- then the journal's rows are locked, then batches: later statements of `with` run first. A task that may run again,
-- because a newer version of it was submitted during the attempt or because it is in a pipeline, is left to
-- end_attempts.
--   one element per attempt, in id order: $1 ids, $2 tokens, $3 results; $4 the retention in days if their queue does
--   not set it; $5 remarks or null
with done as (
  delete from tasks t using unnest($1::bigint[], $2::timestamptz[], $3::text[], $5::text[]) u(id, token, result, remark)
  where t.id = any(array[u.id]) and t.last_updated = u.token and t.status = 'executing'
    and (t.restart is null or t.restart = '{}') and t.pipeline_id is null
  returning t.id, t.last_updated as token, t.route_id, t.attempt, t.assignment_id, t.retrying, t.permits,
    (select (statement_timestamp() at time zone 'UTC')::date + 1) + case
      when (select exists (select from queues where keep_completed_hours is not null))
        then keep_days(t.queue, 'completed', $4::int) else $4::int end as keep_until,
    t.run_at, greatest(clock_timestamp(), t.last_updated + interval '1us') as ended, t.{kept}, u.result, t.last_error,
    t.error_code, coalesce(t.first_started, t.last_updated) as first_started, coalesce(u.remark, t.remark) as remark,
    t.stack_trace),
{part completed},
 ended_counts as (
  insert into count_changes (keep_until, route_id, status, count, due, live, retrying)
  select keep_until, route_id, 'completed', count(*), delayed_to(retrying, run_at, token), -count(*), -count(retrying)
  from done group by 1, 2, 5),
 batched as (
  insert into callbacks (batch_id, task_id, event, url, secret, payload)
  select * from batch_tasks_ended((
    select jsonb_agg(jsonb_build_object('batch_id', d.batch_id, 'id', d.id, 'type', d.type, 'status', 'completed',
      'attempt', d.attempt, 'remark', d.remark, 'worker_id', d.worker_id,
      'details', case when d.fits then d.details end, 'result', case when d.fits then coalesce(d.result, '') end,
      'omitted', case when not d.fits then true end, 'started_at', d.token, 'ended_at', d.ended) order by d.id)
    from (
      select d.*,
{part fits} as fits
      from done d
{part notified}) d))),
 lowered as (
  update assignments a set open = a.open - e.n, closed_at = case when a.open = e.n then clock_timestamp() end
  from (select assignment_id, count(*)::int as n from done group by 1 order by 1) e
  where a.id = any(array[e.assignment_id])),
 returned as (
  update limits l set taken = l.taken - p.n
  from (select x.id, count(*)::int as n from done cross join unnest(permits) x(id) group by 1 order by 1) p
  where l.id = any(array[p.id]))
select id, token, route_id, attempt, batch_id is not null as batched from done
