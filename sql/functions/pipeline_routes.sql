-- Creates the routes of all stages of a pipeline in a queue, or in their own queues, so that the end of a stage need not
-- create one.
create or replace function pipeline_routes(of_pipeline bigint, in_queue text) returns void language sql as $$
  select route_of(queue, type) from (
    select distinct coalesce(s ->> 'queue', in_queue) as queue, s ->> 'type' as type
    from pipelines p, jsonb_array_elements(p.stages) s where p.id = of_pipeline
    order by 1, 2) types
$$;
