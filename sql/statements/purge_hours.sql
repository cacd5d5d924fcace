-- Deletes ended tasks whose queue keeps them for hours that are no whole days, with all that belongs to them. Their partition is
-- that of the day on which they go. A manager that archives gets them with the day instead.
-- Such a task ended at most a day and the whole days of its hours before today: only the last pages of a partition can have it.
-- Tasks that ended while their queue kept them for more days go with their day.
with due as materialized (
  select h.task_id
  from queues q
  cross join lateral (values ('completed', q.keep_completed_hours), ('dead', q.keep_dead_hours), ('cancelled', q.keep_cancelled_hours))
    k(status, hours)
  cross join lateral (
    select task_id from task_history t
    where t.queue = q.name and t.status = k.status and t.last_updated <= statement_timestamp() - interval '1 hour' * k.hours
      and t.last_updated >= (((statement_timestamp() at time zone 'UTC')::date - 1 - k.hours / 24)::timestamp at time zone 'UTC')
      and t.keep_until >= (statement_timestamp() at time zone 'UTC')::date
      and t.keep_until <= (statement_timestamp() at time zone 'UTC')::date + 1
    limit 5000 for update skip locked) h
  where k.hours % 24 <> 0 and not exists (select from managers where archives and not stopped)
  limit 5000),
 gone as (
  delete from task_history t
  where t.task_id = any(array(select task_id from due)) and t.keep_until >= (statement_timestamp() at time zone 'UTC')::date
    and t.keep_until <= (statement_timestamp() at time zone 'UTC')::date + 1
  returning t.task_id, t.queue, t.key),
 forgotten as materialized (
  select tasks_forget(array_agg(task_id), jsonb_agg(jsonb_build_object('queue', queue, 'key', key, 'task_id', task_id))
    filter (where key is not null)) from gone)
select g.task_id from forgotten cross join gone g
