-- Deletes what other tables have of the next `most` tasks of a partition, by task id. Returns the last id; null at the end.
create or replace function history_forget(partition text, after bigint, most int) returns bigint language plpgsql as $$
declare
  ids bigint[];
  keyed jsonb;
begin
  execute format('select array_agg(task_id order by task_id),
      jsonb_agg(jsonb_build_object(''queue'', queue, ''key'', key, ''task_id'', task_id)) filter (where key is not null)
    from (select task_id, queue, key from reeve.%I where task_id > $1 order by task_id limit $2) p', partition)
  into ids, keyed using after, most;
  perform tasks_forget(ids, keyed);
  return ids[array_upper(ids, 1)];
end $$;
