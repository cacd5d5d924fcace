-- All events in order. The ordinary events are derived from the rows that have them already; `version` and `place`
-- order the events of a task, whatever the clock did. No event is later than the day on which its row may be deleted
-- (keep_until), so a query from some time on can leave out the earlier partitions. An event without an actor here was
-- caused by its worker: its actor is who has registered that, unless a result was `reported` by another caller.
create or replace view audit_log as
select at, task_id, version, place, event, worker_id, attempt,
  coalesce(actor, (select w.actor from workers w where w.id = worker_id), '') as actor, note, keep_until
from (
  select created as at, id as task_id, created as version, 0 as place, 'submitted' as event, null::bigint as worker_id,
    null::smallint as attempt, source as actor, '' as note, 'infinity'::date as keep_until
  from tasks
  union all
  select created, task_id, created, 0, 'submitted', null, null, source, '', keep_until
  from task_history
  union all
  select last_updated, id, last_updated, 1, 'claimed', worker_id, attempt, null, 'assignment ' || assignment_id, 'infinity'
  from tasks where status = 'executing'
  union all
  select token, task_id, token, 1, 'claimed', worker_id, attempt, null, 'assignment ' || assignment_id, keep_until
  from task_history where token is not null
  union all
  select last_updated, task_id, last_updated, 2, status, worker_id, case when token is not null then attempt end,
    case when by_report then (
      select v.actor from task_events v where v.task_id = h.task_id and v.version = h.token and v.event = 'reported' order by v.id desc limit 1)
      else '' end,
    case when status <> 'completed' then concat_ws(': ', error_code, last_error) else '' end, keep_until
  from task_history h
  union all
  select token, task_id, token, 1, 'claimed', worker_id, attempt, null, 'assignment ' || assignment_id, 'infinity'
  from task_attempts
  union all
  select last_updated, task_id, last_updated, 2,
    case when status in ('completed', 'dead', 'cancelled') then status else outcome end,
    worker_id, attempt, case when by_report then (
      select v.actor from task_events v where v.task_id = a.task_id and v.version = a.token and v.event = 'reported' order by v.id desc limit 1)
      else '' end,
    concat_ws(': ', error_code, error), 'infinity'
  from task_attempts a
  union all
  select at, task_id, version, 3, event, worker_id, null, actor, note, 'infinity'
  from task_events) e;
