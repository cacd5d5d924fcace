-- Returns how a task of a pipeline begins, in a stage (null: the first), as a part of its spec (see submit_task). Raises
-- RV404 if there is no such pipeline or stage.
create or replace function pipeline_start(wanted text, at_stage text default null) returns jsonb language plpgsql stable as $$
declare
  p pipelines;
  begins jsonb;
begin
  select * into p from pipelines where name = wanted and replaced_at is null;
  if not found then
    raise exception using errcode = 'RV404', message = format('there is no pipeline "%s"', wanted);
  end if;
  begins := coalesce((select s from jsonb_array_elements(p.stages) s where s ->> 'name' = at_stage),
    case when at_stage is null then p.stages -> 0 end);
  if begins is null then
    raise exception using errcode = 'RV404', message = format('pipeline "%s" has no stage "%s"', wanted, at_stage);
  end if;
  return begins || jsonb_build_object('pipeline_id', p.id, 'stage', begins ->> 'name', 'step', 1);
end $$;
