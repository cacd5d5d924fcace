-- Returns a task as its spec describes it (see submit_task), without the fields that only its submit knows: id, route,
-- times, batch.
create or replace function task_of_spec(spec jsonb) returns tasks language plpgsql immutable as $$
declare
  t tasks;
begin
  t.queue := spec ->> 'queue';
  t.type := spec ->> 'type';
  t.details := spec ->> 'details';
  t.priority := spec ->> 'priority';
  t.max_attempts := spec ->> 'max_attempts';
  t.timeout_ms := spec ->> 'timeout_ms';
  t.retry_base_ms := spec ->> 'retry_base_ms';
  t.retry_max_ms := spec ->> 'retry_max_ms';
  t.retry_policy := case when jsonb_typeof(spec -> 'retry_policy') = 'object' then spec -> 'retry_policy' end;
  t.key := spec ->> 'key';
  t.version := spec ->> 'version';
  t.source := spec ->> 'source';
  t.pipeline_id := spec ->> 'pipeline_id';
  t.stage := spec ->> 'stage';
  t.step := spec ->> 'step';
  return t;
end $$;
