-- How tasks of pipelines begin. One element a task: $1 the pipelines' names, $2 queues.
select (s ->> 'pipeline_id')::bigint, s ->> 'stage', s ->> 'type', (s ->> 'priority')::int, (s ->> 'max_attempts')::int,
  (s ->> 'timeout_ms')::bigint, (s ->> 'retry_base_ms')::bigint, (s ->> 'retry_max_ms')::bigint,
  (s -> 'retry_policy')::text
from (
  select n, pipeline_start(name, queue) as s
  from unnest($1::text[], $2::text[]) with ordinality u(name, queue, n) order by queue, name offset 0) started
order by n
