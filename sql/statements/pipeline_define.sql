-- Defines a pipeline. $1 request id, $2 name, $3 stages as JSON, $4 how many stages a task enters at most, $5 who.
select p.id, p.name, p.stages::text, p.max_steps, p.source, p.created, d.changed
from pipeline_define($1::uuid, $2::text, $3::text::jsonb, $4::int, $5::text) d join pipelines p on p.id = d.id
