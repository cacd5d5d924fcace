-- Creates the routes of all stages of a pipeline in a queue, so that the end of a stage need not create one.
create or replace function pipeline_routes(of_pipeline bigint, in_queue text) returns void language sql as $$
  select route_of(in_queue, type) from (
    select distinct s ->> 'type' as type from pipelines p, jsonb_array_elements(p.stages) s where p.id = of_pipeline
    order by 1) types
$$;
