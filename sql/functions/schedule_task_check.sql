-- Raises an error unless the tasks that a schedule describes could be submitted, as far as the database knows. What is
-- not in `change` was valid when it was set.
create or replace function schedule_task_check(s schedules, change jsonb) returns void language plpgsql as $$
declare
  problem text := schedule_key_problem(s.spec ->> 'key', s.name, s.cron is null and s.every_ms is null);
  b batches;
begin
  if not s.spec ? 'type' and not s.spec ? 'pipeline' then
    raise exception using errcode = 'RV400', message = 'schedule.task.type is empty';
  elsif s.spec ? 'type' and s.spec ? 'pipeline' then
    raise exception using errcode = 'RV400', message = 'schedule.task.type and schedule.task.pipeline cannot be combined';
  elsif s.spec ? 'pipeline' and s.spec ?| array['max_attempts', 'timeout_ms', 'retry_base_ms'] then
    raise exception using errcode = 'RV400', message = format('schedule.task.%s cannot be combined with a pipeline, whose stages set it',
      case when s.spec ? 'max_attempts' then 'max_attempts' when s.spec ? 'timeout_ms' then 'timeout_ms' else 'retry' end);
  elsif problem is not null then
    raise exception using errcode = 'RV400', message = 'schedule.task.key ' || problem;
  elsif s.spec ? 'key_ttl_ms' and not s.spec ? 'key' then
    raise exception using errcode = 'RV400', message = 'schedule.task.key_ttl_ms needs a key';
  end if;
  if s.spec ? 'pipeline' and change ?| array['pipeline', 'stage'] then
    perform pipeline_start(s.spec ->> 'pipeline', s.spec ->> 'stage');
  end if;
  if s.spec ? 'batch_id' and change ?| array['batch_id', 'queue'] then
    select * into b from batches where id = (s.spec ->> 'batch_id')::bigint;
    if not found then
      raise exception using errcode = 'RV404', message = format('there is no batch %s', s.spec ->> 'batch_id');
    elsif b.queue <> coalesce(s.spec ->> 'queue', 'default') then
      raise exception using errcode = 'RV400', message = format('batch %s is of queue "%s", the schedule''s tasks of "%s"', b.id,
        b.queue, coalesce(s.spec ->> 'queue', 'default'));
    elsif b.closed_at is not null then
      raise exception using errcode = 'RV409', message = batch_closed(b);
    end if;
  end if;
end $$;
