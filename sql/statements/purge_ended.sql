-- Deletes ended tasks with their attempts, events and keys. The audit keeps one event for each, which is added after the others
-- are deleted. $1 ids, $2 actor, $3 reason.
with gone as (
  delete from task_history where task_id = any($1::bigint[]) returning task_id, queue, key, status, last_updated),
 forgotten as materialized (
  select tasks_forget(array_agg(task_id), jsonb_agg(jsonb_build_object('queue', queue, 'key', key, 'task_id', task_id))
    filter (where key is not null)) from gone),
 events as (
  insert into task_events (task_id, version, event, actor, note)
  select g.task_id, g.last_updated, 'purged', $2, $3 from forgotten cross join gone g)
select task_id, status from gone
