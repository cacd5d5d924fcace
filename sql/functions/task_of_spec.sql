-- Returns a task as its spec describes it (see submit_task), whose fields have the names of the columns. The caller sets what
-- only its submit knows: id, route, times, batch.
create or replace function task_of_spec(spec jsonb) returns tasks language sql stable as $$
  select jsonb_populate_record(null::tasks, spec)
$$;
