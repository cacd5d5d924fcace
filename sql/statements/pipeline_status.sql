-- Counts the live tasks of a pipeline by stage: of each of its definitions that is in use up to 50,000. Stages of the current
-- definition come first, in its order. No name: there is no such pipeline.
-- takes PipelineStatusRequest: name
-- gives PipelineStatusResponse.stages: stage, type, queue, queued, delayed, executing, failed, .name, .truncated
with current as materialized (
  select p.name, s ->> 'name' as stage, s ->> 'type' as type, s ->> 'queue' as queue, n
  from pipelines p, jsonb_array_elements(p.stages) with ordinality u(s, n)
  where p.name = $1 and p.replaced_at is null),
 live as materialized (
  select t.* from pipelines p cross join lateral (
    select stage, status, run_at from tasks where pipeline_id = p.id limit 50001) t
  where p.name = $1),
 counted as (
  select stage, count(*) filter (where status = 'queued' and run_at <= statement_timestamp()) as queued,
    count(*) filter (where status = 'queued' and run_at > statement_timestamp()) as delayed,
    count(*) filter (where status = 'executing') as executing, count(*) filter (where status = 'failed') as failed
  from live group by 1)
select coalesce(c.stage, l.stage) as stage, c.type, c.queue, coalesce(l.queued, 0) as queued, coalesce(l.delayed, 0) as delayed,
  coalesce(l.executing, 0) as executing, coalesce(l.failed, 0) as failed, (select max(name) from current) as name,
  (select count(*) from live) > 50000 as truncated
from current c full join counted l on l.stage = c.stage
order by c.n, l.stage
