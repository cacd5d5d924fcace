-- Adds a task and counts it; returns the row. Null fields get the table's defaults. Only the statements that must be
-- fast do not use it: submit, submit_plain, submit_one and retry_ended.
create or replace function task_insert(t tasks) returns tasks language plpgsql as $$
begin
  t.id := coalesce(t.id, nextval('tasks_id_seq'));
  t.priority := coalesce(t.priority, 0);
  t.details := coalesce(t.details, '');
  t.status := 'queued';
  t.attempt := 0;
  t.max_attempts := coalesce(t.max_attempts, DEFAULT_ATTEMPTS);
  t.timeout_ms := coalesce(t.timeout_ms, DEFAULT_TIMEOUT_MS);
  t.retry_base_ms := coalesce(t.retry_base_ms, DEFAULT_RETRY_BASE_MS);
  t.retry_max_ms := coalesce(t.retry_max_ms, DEFAULT_RETRY_MAX_MS);
  t.returns := 0;
  t.source := coalesce(t.source, '');
  t.created := coalesce(t.created, clock_timestamp());
  t.last_updated := coalesce(t.last_updated, t.created);
  insert into tasks overriding system value values (t.*);
  insert into count_changes (route_id, due, live) values (t.route_id, delayed_to(t.run_at, t.last_updated), 1);
  return t;
end $$;
