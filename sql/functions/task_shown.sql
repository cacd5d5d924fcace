-- Converts a task as submit_task takes it to the contract's TaskSpec.
create or replace function task_shown(spec jsonb) returns jsonb language sql immutable as $$
  select spec - array['retry_policy', 'retry_base_ms', 'retry_max_ms'] || case when spec ? 'retry_base_ms' then
    jsonb_build_object('retry', retry_shown(spec -> 'retry_policy', (spec ->> 'retry_base_ms')::bigint, (spec ->> 'retry_max_ms')::bigint))
    else '{}' end || case when spec ? 'priority' then '{"own_priority": true}' else '{}' end::jsonb
$$;
