-- Returns how a task of a pipeline begins, as a part of its spec (see submit_task). Raises RV404 if there is no such
-- pipeline.
create or replace function pipeline_start(wanted text) returns jsonb language plpgsql stable as $$
declare
  p pipelines;
begin
  select * into p from pipelines where name = wanted and replaced_at is null;
  if not found then
    raise exception using errcode = 'RV404', message = format('there is no pipeline "%s"', wanted);
  end if;
  return p.stages -> 0 || jsonb_build_object('pipeline_id', p.id, 'stage', p.stages -> 0 ->> 'name', 'step', 1);
end $$;
