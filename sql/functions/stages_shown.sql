-- Converts the column `stages` of a pipeline to the contract's PipelineStage messages.
create or replace function stages_shown(stages jsonb) returns jsonb language sql immutable as $$
  select jsonb_agg(s - array['retry_policy', 'retry_base_ms', 'retry_max_ms', 'priority'] || jsonb_build_object(
      'next', coalesce(s ->> 'next', 'end'),
      'retry', retry_shown(s -> 'retry_policy', (s ->> 'retry_base_ms')::bigint, (s ->> 'retry_max_ms')::bigint))
    || case when s ? 'priority' then jsonb_build_object('priority', jsonb_build_object('value', s -> 'priority')) else '{}' end
    order by n)
  from jsonb_array_elements(stages) with ordinality e(s, n)
$$;
