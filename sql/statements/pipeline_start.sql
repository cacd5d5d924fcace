-- Returns how tasks of pipelines begin, and creates the routes of all their stages. One element per task: $1 the
-- pipelines' names, $2 queues, $3 the stages in which they begin, or null; $4 the request id of their submit. No row: the
-- submit was executed before. The pipelines need not be as they were then.
with started as materialized (
  select n, queue, pipeline_start(name, stage) as s from unnest($1::text[], $2::text[], $3::text[]) with ordinality u(name, queue, stage, n)
  where not exists (select from requests where id = $4::uuid)),
 routed as materialized (
  select pipeline_routes(id, queue)
  from (select distinct (s ->> 'pipeline_id')::bigint as id, queue from started order by queue, id) p)
select (s ->> 'pipeline_id')::bigint, s ->> 'stage', s ->> 'type', (s ->> 'priority')::int, (s ->> 'max_attempts')::int,
  (s ->> 'timeout_ms')::bigint, (s ->> 'retry_base_ms')::bigint, (s ->> 'retry_max_ms')::bigint,
  (s -> 'retry_policy')::text, s ->> 'queue'
from started where (select count(*) from routed) > 0
order by n
