-- Defines a pipeline, or replaces its definition; the same definition again changes nothing. The definition is checked
-- already; without `steps` it has the default. Returns the current row.
create or replace function pipeline_define(request uuid, with_name text, with_stages jsonb, steps int, by text, out standing pipelines,
  out changed boolean) language plpgsql as $$
declare
  made bigint := nextval(pg_get_serial_sequence('pipelines', 'id'));
  before bigint := batch_request(request, 'pipeline_define', made);
begin
  steps := coalesce(steps, DEFAULT_STEPS);
  if before is not null then
    changed := before > 0;
    select * into standing from pipelines where id = abs(before);
    return;
  end if;
  loop
    select * into standing from pipelines where name = with_name and replaced_at is null for no key update;
    changed := not found or standing.stages <> with_stages or standing.max_steps <> steps;
    if not changed then
      update requests set task_ids = array[-standing.id] where id = request; -- a repeated call gets this answer, too
      return;
    end if;
    update pipelines set replaced_at = clock_timestamp() where id = standing.id;
    insert into pipelines (id, name, stages, max_steps, source) overriding system value
    values (made, with_name, with_stages, steps, by) on conflict do nothing
    returning * into standing;
    if found then
      return;
    end if;
  end loop; -- another session's came first: check it
end $$;
