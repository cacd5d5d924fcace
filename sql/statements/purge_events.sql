-- Forgets events of tasks that no table knows any more. $1 days, if no queue keeps anything longer.
delete from task_events where id in (
  select e.id from task_events e
  where e.at < statement_timestamp() - interval '1 day' * (longest_keep($1::int) + 1)
    and not exists (select from tasks t where t.id = e.task_id)
    and not exists (select from task_history h where h.task_id = e.task_id)
  order by e.at limit 5000)
