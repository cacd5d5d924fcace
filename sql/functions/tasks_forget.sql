-- Deletes what other tables have of tasks that are being deleted: attempts, logs, events, and the keys, each {"queue", "key",
-- "task_id"}. A key with a lifetime of its own, or with a version, stays. The key of a pipeline's task is in the queue in which
-- that began. Locks the keys in the order in which all lock them.
create or replace function tasks_forget(ids bigint[], keyed jsonb) returns void language sql as $$
  with owned as materialized (select * from jsonb_to_recordset(keyed) as o(queue text, key text, task_id bigint)),
   gone as materialized (
    select k.queue, k.key
    from (
      select queue, key, task_id from owned
      union
      select a.queue, o.key, o.task_id from owned o join task_attempts a on a.task_id = o.task_id and a.queue <> o.queue) o
    join keys k on k.queue = o.queue and k.key = o.key and k.task_id = o.task_id
    where k.keep_ms is null and k.version is null order by k.queue, k.key for update of k)
  delete from keys k using gone g where k.queue = g.queue and k.key = g.key;
  delete from task_attempts where task_id = any(ids);
  delete from task_progress where task_id = any(ids);
  delete from task_logs where task_id = any(ids);
  delete from task_events where task_id = any(ids)
$$;
