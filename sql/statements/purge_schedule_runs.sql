-- Deletes old runs, but not the last ten of each existing schedule. $1 the retention in days, if no manager has a
-- longer one. (LIMIT and OFFSET restrict the search for those to one page of an index.)
delete from schedule_runs where id in (
  select r.id from schedule_runs r
  where r.at < statement_timestamp() - interval '1 day' * ((select history_keep($1::int)) + 1)
    and (exists (select from schedule_runs n where n.schedule_id = r.schedule_id and n.id > r.id offset 9 limit 1)
      or not exists (select from schedules s where s.id = r.schedule_id))
  order by r.at limit 5000)
