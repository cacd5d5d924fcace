-- Deletes worker commands whose attempt has ended; those to a worker itself (task 0) when its incarnation has ended.
delete from worker_commands o
where case when o.task_id = 0 then not exists (select from workers w where w.id = o.worker_id and not w.lost)
  else not exists (select from tasks t where t.id = o.task_id and t.last_updated = o.token) end
