-- Deletes ended tasks with their attempts, events and keys. The audit keeps one event for each. $1 ids, $2 actor, $3 reason.
with gone as materialized (
  delete from task_history where task_id = any($1::bigint[]) returning task_id, queue, key, status, last_updated),
 attempts as (delete from task_attempts where task_id = any(array(select task_id from gone))),
 events as (delete from task_events where task_id = any(array(select task_id from gone))),
 told as (
  insert into task_events (task_id, version, event, actor, note) select task_id, last_updated, 'purged', $2, $3 from gone),
 forgotten as materialized (
  select keys_forget((select jsonb_agg(jsonb_build_object('queue', queue, 'key', key, 'task_id', task_id)) from gone where key is not null)))
select g.task_id, g.status from gone g left join forgotten on true
