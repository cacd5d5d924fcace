-- Forgets orders whose attempt has ended.
delete from orders o
where not exists (select from tasks t where t.id = o.task_id and t.last_updated = o.token)
