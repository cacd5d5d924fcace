-- Queues that somebody has set something of. One that is not here has the defaults of these columns.
create table queues (
  name text primary key,
  state text not null default 'running' check (state in ('running', 'held', 'paused', 'stopping', 'stopped')),
  state_since timestamptz not null default clock_timestamp(),
  is_held boolean not null default false,  -- of a paused one: it waits to be started when it is resumed
  stopped_at timestamptz,                  -- when it was stopped last, by whom, and the newest task's id then: all up to
  stopped_by text,                         -- that one end dead
  stopped_id bigint,
  batches boolean not null default false,  -- implicit ones
  batch_id bigint,                         -- the implicit one that is open
  autostart boolean not null default true, -- else a new batch is held until the queue is started
  is_verbose boolean not null default false,
  max_attempts int,                        -- of tasks that don't say
  retry_base_ms bigint,
  retry_max_ms bigint,
  retry_policy jsonb,
  resting_ms bigint not null default 0,    -- a slot rests so long between two tasks
  waiting_ms bigint not null default 0,    -- a worker waits so long before its first
  callback_url text,
  callback_secret text,
  callback_tasks boolean not null default false, -- after each task, too
  callback_type text,                      -- a task of this type is submitted
  entry_type text,
  exit_type text,
  keep_completed_days int,
  keep_dead_days int,
  keep_cancelled_days int,
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp());
-- Those whose tasks nobody may take: every claim reads it.
create index queues_halted on queues (name) where state <> 'running';
-- Those whose completed tasks are not kept as long as usual: every completion asks whether there are any.
create index queues_keeping on queues (name) where keep_completed_days is not null;

-- What was done with queues, by whom.
create table queue_events (
  id bigint generated always as identity primary key,
  queue text not null,
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- queue_set, queue_paused, queue_stopped, …
  actor text not null default '',
  note text not null default '');
create index queue_events_at on queue_events (at);
