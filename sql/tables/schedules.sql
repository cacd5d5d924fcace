-- Schedules: definitions of repeated work. Their runs are in schedule_runs. A firing updates the row under a check of
-- last_updated, so that only one of any number of managers executes it.
create table schedules (
  id bigint generated always as identity primary key,
  name text not null unique,
  cron text,                               -- five fields,
  zone text not null default 'UTC',        -- in the local time of this zone;
  every_ms bigint,                         -- or a fixed interval,
  start_at timestamptz not null default clock_timestamp(), -- counted from this time; neither: manual runs only
  spec jsonb,                              -- the task (see submit_task); "key" may contain {name}, {date} and {time}
  queue_action text check (queue_action in ('start', 'stop', 'pause', 'resume')), -- or an action
  action_queue text,                       -- on this queue
  catch_up text not null default 'one' check (catch_up in ('skip', 'one', 'all')),
  max_catch_up int not null default 1,     -- how many of the missed times, the latest ones, get a catch-up run
  concurrency_policy text not null default 'queue' check (concurrency_policy in ('allow', 'forbid', 'queue')),
  paused boolean not null default false,
  next_at timestamptz,                     -- the scheduled time of the next firing; null: none (manual runs only, or it
                                           -- never fires again)
  last_at timestamptz,                     -- the scheduled time of the last firing, executed or skipped
  retry_at timestamptz,                    -- a firing that could not be executed is not retried before this time
  last_task_id bigint,                     -- the last task that it submitted
  source text not null default '',         -- the actor that added it
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),   -- when it was edited, paused or resumed
  last_updated timestamptz not null default clock_timestamp(),
  check ((spec is null) <> (queue_action is null)),
  check ((queue_action is null) = (action_queue is null)),
  check (cron is null or every_ms is null)
) with (fillfactor = 50);
create index schedules_due on schedules (greatest(next_at, retry_at)) where not paused and next_at is not null;

-- The runs: the outcome of each firing and each manual run. A scheduled time has one row, however many managers there
-- are; manual runs have no scheduled time.
create table schedule_runs (
  id bigint generated always as identity primary key,
  schedule_id bigint not null,
  scheduled_at timestamptz,
  at timestamptz not null default clock_timestamp(),
  outcome text not null,                   -- submitted, existing (its key's task), acted (on a queue), missed, overlapped, refused
  task_id bigint,
  actor text not null default '',          -- the actor of a manual run
  note text not null default '',
  missed bigint,                           -- how many scheduled times were missed; null: none was
  unique (schedule_id, scheduled_at));
create index schedule_runs_at on schedule_runs (at);
create index schedule_runs_listed on schedule_runs (schedule_id, id);

-- The audit of schedules: each change, with its actor. It also has the names of removed schedules, by which their runs
-- are found.
create table schedule_events (
  id bigint generated always as identity primary key,
  schedule_id bigint not null,
  schedule text not null,
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- schedule_added, schedule_edited, _paused, _resumed, _removed
  actor text not null default '',
  note text not null default '');
create index schedule_events_at on schedule_events (at);
create index schedule_events_removed on schedule_events (schedule) where event = 'schedule_removed';

-- A parsed cron expression: the values of each field, in ascending order. either: both the day of the month and the day
-- of the week are restricted, and a day fits if one of them does. problem: why the expression is invalid.
create type cron_plan as (minutes int[], hours int[], days int[], months int[], weekdays int[], either boolean, problem text);
