-- Returns a time before all stored events. Ids are in the order of their submits, except those of submits at about the
-- same time.
create or replace function audit_oldest() returns timestamptz language sql stable set enable_seqscan = off as $$
  select coalesce(least(
    (select created from tasks order by id limit 1),
    (select created from task_history order by task_id limit 1),
    (select min(last_updated) from task_attempts),
    (select min(at) from task_events),
    (select min(at) from worker_events),
    (select min(at) from queue_events),
    (select min(at) from schedule_events),
    (select min(at) from identity_events)), statement_timestamp()) - interval '1 minute'
$$;
