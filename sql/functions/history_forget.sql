-- Deletes the attempts and events of the next `most` tasks of a partition, by task id. Returns the last id; null at the
-- end.
create or replace function history_forget(partition text, after bigint, most int) returns bigint language plpgsql as $$
declare
  ids bigint[];
begin
  execute format('select array_agg(task_id order by task_id) from (
    select task_id from reeve.%I where task_id > $1 order by task_id limit $2) p', partition) into ids using after, most;
  delete from task_attempts where task_id = any(ids);
  delete from task_events where task_id = any(ids);
  return ids[array_upper(ids, 1)];
end $$;
