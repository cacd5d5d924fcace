-- Defines a pipeline. $1 request id, $2 name, $3 stages as JSON, $4 how many stages a task can enter, $5 the actor.
select (d.standing).id, (d.standing).name, (d.standing).stages::text, (d.standing).max_steps, (d.standing).source,
  (d.standing).created, d.changed
from pipeline_define($1::uuid, $2::text, $3::text::jsonb, $4::int, $5::text) d
