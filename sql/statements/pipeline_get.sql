-- Returns the current definition of a pipeline.
-- takes ShowPipelineRequest: name
-- gives ShowPipelineResponse: pipeline.[pipeline]
select id, name, stages_shown(stages), max_steps, source, created from pipelines where name = $1::text and replaced_at is null
