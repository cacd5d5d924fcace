-- Starts ended tasks over under the same id: the history row is deleted, and the ended attempt is kept among the
-- attempts. A task of a pipeline begins with the stage in which it ended.
-- In a batch that is not over they are pending again, and blocked if it has not begun; in one that is over they run
-- without being counted. The batches are locked first, so that their state holds until the tasks are created and
-- counted.
-- A task that was submitted by SQL and ended before it was ingested has no route yet.
-- A task whose time in the history is over stays there: what other tables have of it is being deleted (history_forget).
-- $1 ids, $2 actor.
with gone as (
  delete from task_history
  where task_id = any($1::bigint[]) and keep_until >= (statement_timestamp() at time zone 'UTC')::date returning *),
 theirs as materialized (
  select id, phase, entry_type, entry_id, exit_id from batches where id = any(array(select batch_id from gone))
  order by id for no key update),
 versioned as materialized (
  select g.*, greatest(clock_timestamp(), g.last_updated + interval '1us') as moment,
    coalesce((select x.entry_type is not null and x.phase in ('new', 'entry') and g.task_id is distinct from x.entry_id
      from theirs x where x.id = g.batch_id), false) as blocked
  from gone g),
 made as (
  insert into tasks (id, route_id, {kept}, status, run_at, attempt, last_error, error_code, first_started, started,
    last_updated, remark, stack_trace, blocked_run_at) overriding system value
  select task_id, case when route_id = 0 then route_of(queue, type) else route_id end, {kept}, 'queued',
    case when blocked then 'infinity' else moment end, 0, last_error, error_code, first_started, started,
    moment, remark, stack_trace, case when blocked then moment end
  from versioned order by task_id
  returning id, last_updated, run_at, route_id, priority),
 counted as (
  insert into count_changes (route_id, due, live)
  select route_id, delayed_to(run_at, last_updated), count(*) from made group by 1, 2),
 attempts as (
  insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, error,
    error_code, run_at, last_updated, result, remark, stack_trace, stage, queue, type)
  select task_id, token, attempt, worker_id, assignment_id, status, status, by_report, last_error, error_code, null,
    last_updated, result, remark, stack_trace, stage, queue, type
  from versioned where token is not null),
 events as (
  insert into task_events (task_id, version, event, actor)
  select task_id, last_updated, status, '' from versioned where token is null
  union all
  select task_id, moment, 'retried', $2 from versioned),
 pipelines_again as ( -- see purge_pipelines.sql
  update pipelines set unused_since = null, unused_xid = null
  where id = any(array(select pipeline_id from versioned)) and unused_since is not null),
 batches_again as (
  update batches b set pending = b.pending + n.n, completed = b.completed - n.completed, failed = b.failed - n.n + n.completed
  from (select v.batch_id, count(*) as n, count(*) filter (where v.status = 'completed') as completed from versioned v
    join theirs x on x.id = v.batch_id where v.task_id is distinct from x.entry_id and v.task_id is distinct from x.exit_id
    group by 1 order by 1) n
  where b.id = n.batch_id and b.phase not in ('exit', 'ended'))
select id, last_updated, run_at, route_id, priority from made
