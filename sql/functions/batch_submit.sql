-- Submits a batch's entry or exit task, and returns its id.
create or replace function batch_submit(b batches, which text, of_type text) returns bigint language sql as $$
  select submit_internal(b.queue, of_type, jsonb_build_object('event', 'batch_' || which, 'batch_id', b.id,
    'batch', b.name, 'queue', b.queue, 'submitted', b.submitted, 'completed', b.completed, 'failed', b.failed)::text, b.id,
    format('%s of batch %s', which, b.id))
$$;
