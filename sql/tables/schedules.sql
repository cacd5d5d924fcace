-- Schedules: definitions of what is to happen again and again, apart from the runs they make. A tick is taken by an update under
-- last_updated, so that of any number of managers one takes it.
create table schedules (
  id bigint generated always as identity primary key,
  name text not null unique,
  cron text,                               -- five fields, or
  zone text not null default 'UTC',        -- (whose clocks the fields mean)
  every_ms bigint,                         -- a fixed interval,
  start_at timestamptz not null default clock_timestamp(), -- counted from here; or neither: by hand only
  spec jsonb,                              -- the task: see submit_task; "key" may have {name}, {date} and {time} in it
  queue_action text check (queue_action in ('start', 'stop', 'pause', 'resume')), -- or what is done
  action_queue text,                       -- with which queue
  missed text not null default 'one' check (missed in ('skip', 'one', 'all')),
  missed_most int not null default 1,      -- of all that were missed, so many (the latest) are made up for
  overlap text not null default 'queue' check (overlap in ('skip', 'queue', 'allow')),
  paused boolean not null default false,
  next_at timestamptz,                     -- the planned time of the next tick; null: there is none (it is by hand only, or will
                                           -- never come again)
  last_at timestamptz,                     -- the planned time of the last tick that was taken, or passed over
  retry_at timestamptz,                    -- a tick that could not be taken is not tried again before
  last_task_id bigint,                     -- the last task it submitted
  source text not null default '',         -- who added it
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),   -- when it was edited, paused or resumed
  last_updated timestamptz not null default clock_timestamp(),
  check ((spec is null) <> (queue_action is null)),
  check ((queue_action is null) = (action_queue is null)),
  check (cron is null or every_ms is null)
) with (fillfactor = 50);
create index schedules_due on schedules (greatest(next_at, retry_at)) where not paused and next_at is not null;

-- What came of each tick. A planned time is there once, however many managers there are; runs by hand have none.
create table schedule_runs (
  id bigint generated always as identity primary key,
  schedule_id bigint not null,
  planned_at timestamptz,
  at timestamptz not null default clock_timestamp(),
  outcome text not null,                   -- submitted, existing (its key's task), acted (on a queue), missed, overlapped, refused
  task_id bigint,
  actor text not null default '',          -- who ran it by hand
  note text not null default '',
  unique (schedule_id, planned_at));
create index schedule_runs_at on schedule_runs (at);
create index schedule_runs_listed on schedule_runs (schedule_id, id);

-- What was done with definitions, by whom. The runs of one that was removed are found by its name here.
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

-- A cron expression as it was understood: the values each field takes, in order. either: both the day of the month and the day of
-- the week were restricted, and it is enough that one of them fits. problem: why it was not understood.
create type cron_plan as (minutes int[], hours int[], days int[], months int[], weekdays int[], either boolean, problem text);
