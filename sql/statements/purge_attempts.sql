-- Forgets attempts of tasks that no table knows any more. $1 days, if no queue keeps anything longer.
delete from task_attempts where (task_id, token) in (
  select a.task_id, a.token from task_attempts a
  where a.last_updated < statement_timestamp() - interval '1 day' * (longest_keep($1::int) + 1)
    and not exists (select from tasks t where t.id = a.task_id)
    and not exists (select from task_history h where h.task_id = a.task_id)
  order by a.last_updated limit 5000)
