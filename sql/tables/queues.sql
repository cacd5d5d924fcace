-- Queues with settings or a state. A queue without a row has the defaults of these columns.
create table queues (
  name text primary key,
  state text not null default 'running' check (state in ('running', 'not_started', 'paused', 'stopping', 'stopped')),
  state_since timestamptz not null default clock_timestamp(),
  not_started boolean not null default false, -- of a paused queue: after a resume it must still be started
  stopped_at timestamptz,                  -- when and by whom it was last stopped, and the newest task's id at that
  stopped_by text,                         -- time: tasks up to that id end dead
  stopped_id bigint,
  batches boolean not null default false,  -- it has implicit batches
  batch_id bigint,                         -- the open implicit batch
  autostart boolean not null default true, -- false: a new batch does not begin until the queue is started
  is_verbose boolean not null default false,
  max_attempts int,                        -- of tasks that do not set it
  retry_base_ms bigint,
  retry_max_ms bigint,
  retry_policy jsonb,
  resting_ms bigint not null default 0,    -- the resting period: how long a slot takes no task after one of the queue
  waiting_ms bigint not null default 0,    -- the waiting period: from a worker's start, or a batch's or the queue's,
                                           -- until the first task of the queue
  callback_url text,
  callback_secret text,
  callback_tasks boolean not null default false, -- also after each task
  callback_type text,                      -- the type of the callback tasks to submit
  entry_type text,
  exit_type text,
  keep_completed_hours int,                -- how long the history keeps its tasks
  keep_dead_hours int,
  keep_cancelled_hours int,
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),
  waiting_until timestamptz,               -- the end of the last waiting period after a start of a batch or the queue
  max_running int,                         -- how many of its tasks may execute at once; null: any number
  key_ttl_ms bigint not null default 0,    -- how long its keys are kept from the submit; 0: as long as their tasks
  priority int,                            -- of tasks that do not set it; null: 0
  timeout_ms bigint,                       -- the same; null: the default
  callback_attempts boolean not null default false); -- also after each attempt of a task that goes on
-- Queues that may give out no tasks, or not all: every claim reads this index.
create index queues_halted on queues (name)
  where state <> 'running' or max_running is not null or waiting_until is not null;
-- Queues with their own retention of completed tasks: every completion checks whether there are any.
create index queues_keeping on queues (name) where keep_completed_hours is not null;

-- Limits: how many tasks may execute at once. A claim raises `taken` by the permits that it writes to tasks.permits; the
-- statement that ends an attempt returns those. So it is exact in every snapshot, with any number of managers, through
-- crashes and changes of the limit. There is a row for each queue with max_running.
create table limits (
  id bigint generated always as identity primary key,
  queue text not null unique,              -- whose tasks take a permit each
  maximum int not null,
  taken int not null default 0
) with (fillfactor = 50);

-- The audit of queues: each change, with its actor.
create table queue_events (
  id bigint generated always as identity primary key,
  queue text not null,
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- queue_set, queue_paused, queue_stopped, …
  actor text not null default '',
  note text not null default '');
create index queue_events_at on queue_events (at);
