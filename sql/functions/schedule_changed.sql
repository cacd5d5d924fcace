-- Returns a schedule with the changes in `change`, which has any of "cron", "every_ms", "manual" (each replaces the
-- other two), "zone", "start_us", "catch_up", "max_catch_up", "concurrency_policy", "queue_action" and "action_queue", and in "task"
-- the members of spec (null removes one). Raises an error if the result is invalid.
create or replace function schedule_changed(s schedules, change jsonb) returns schedules language plpgsql as $$
declare
  was_every boolean := s.every_ms is not null;
  problem text;
begin
  if change ?| array['cron', 'every_ms', 'manual'] then
    s.cron := change ->> 'cron';
    s.every_ms := (change ->> 'every_ms')::bigint;
    if s.every_ms is not null and not was_every then
      s.start_at := clock_timestamp();
    end if;
  end if;
  if change ? 'start_us' then
    if s.every_ms is null then
      raise exception using errcode = 'RV400', message = 'schedule.start_us needs every_ms';
    end if;
    s.start_at := timestamptz 'epoch' + interval '1us' * (change ->> 'start_us')::bigint;
    if s.start_at > clock_timestamp() + interval '1 day' * LIMIT_EVERY_DAYS then
      raise exception using errcode = 'RV400', message = 'schedule.start_us lies more than LIMIT_EVERY_DAYS days ahead';
    end if;
  end if;
  s.catch_up := coalesce(change ->> 'catch_up', s.catch_up);
  s.max_catch_up := coalesce((change ->> 'max_catch_up')::int, s.max_catch_up);
  s.concurrency_policy := coalesce(change ->> 'concurrency_policy', s.concurrency_policy);
  if change ->> 'zone' <> s.zone then
    select z.proper, z.problem into s.zone, problem from zone_find(change ->> 'zone') z;
    if problem is not null then
      raise exception using errcode = 'RV400', message = 'schedule.zone: ' || problem;
    end if;
  end if;
  problem := cron_check(s.cron);
  if problem is not null then
    raise exception using errcode = 'RV400', message = 'schedule.cron: ' || problem;
  end if;
  if change ?| array['queue_action', 'action_queue'] then
    s.queue_action := coalesce(change ->> 'queue_action', s.queue_action);
    s.action_queue := coalesce(change ->> 'action_queue', s.action_queue);
    if s.queue_action is null or s.action_queue is null then
      raise exception using errcode = 'RV400', message = 'schedule.queue_action and schedule.action_queue need each other';
    end if;
    s.spec := null;
  elsif change ? 'task' then
    if s.queue_action is not null and not (change -> 'task') ?| array['type', 'pipeline'] then
      raise exception using errcode = 'RV400', message = 'schedule.task is given, and the schedule acts on a queue';
    end if;
    s.queue_action := null;
    s.action_queue := null;
    s.spec := coalesce(s.spec, '{}');
    if change #>> '{task,type}' is not null and change #>> '{task,pipeline}' is null then
      s.spec := s.spec - array['pipeline', 'stage'];
    elsif change #>> '{task,pipeline}' is not null and not change -> 'task' ? 'type' then
      s.spec := s.spec - array['type', 'max_attempts', 'timeout_ms', 'retry_base_ms', 'retry_max_ms', 'retry_policy'];
    end if;
    s.spec := jsonb_strip_nulls(s.spec || (change -> 'task'));
  end if;
  if s.spec is not null then
    perform schedule_task_check(s, coalesce(change -> 'task', '{}'));
  end if;
  return s;
end $$;
