-- Pipelines as they are defined now, by name. $1 only this one, or null.
select id, name, stages::text, max_steps, source, created
from pipelines where replaced_at is null and ($1::text is null or name = $1) order by name
