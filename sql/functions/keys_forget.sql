-- Deletes the keys of tasks that are being deleted, each {"queue", "key", "task_id"}, except those with a lifetime of their
-- own or a version. Locks them in the order in which all lock keys.
create or replace function keys_forget(owners jsonb) returns void language sql strict as $$
  with gone as materialized (
    select k.queue, k.key from jsonb_to_recordset(owners) as o(queue text, key text, task_id bigint)
    join keys k on k.queue = o.queue and k.key = o.key and k.task_id = o.task_id
    where k.keep_ms is null and k.version is null order by k.queue, k.key for update of k)
  delete from keys k using gone g where k.queue = g.queue and k.key = g.key
$$;
