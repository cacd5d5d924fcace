-- Defines a pipeline. @change has its stages as in the column of that name.
-- takes DefinePipelineRequest: @request_id, pipeline.name, @change, pipeline.max_steps?, @actor
-- gives DefinePipelineResponse: pipeline.[pipeline], changed
select p.id, p.name, stages_shown(p.stages), p.max_steps, p.source, p.created, d.changed
from pipeline_define($1::uuid, $2::text, $3::text::jsonb, $4::bigint::int, $5::text) d
cross join lateral (select (d.standing).*) p
