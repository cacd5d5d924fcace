-- Erases the details and the results of ended tasks and of their attempts, and deletes their log lines. $1 ids, $2 actor, $3 reason.
with erased as (
  update task_history set details = '', result = case when result is not null then '' end where task_id = any($1::bigint[])
  returning task_id, status, last_updated),
 attempts as (
  update task_attempts set details = case when details is not null then '' end, result = case when result is not null then '' end
  where task_id = any(array(select task_id from erased)) and (details <> '' or result <> '')),
 logs as (delete from task_logs where task_id = any(array(select task_id from erased))),
 events as (
  insert into task_events (task_id, version, event, actor, note) select task_id, last_updated, 'erased', $2, $3 from erased)
select task_id, status from erased
