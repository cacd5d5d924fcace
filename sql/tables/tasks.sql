-- Tasks that live: they wait, execute, or wait to be tried again. The ended ones are in task_history.
--
-- last_updated is a task's version and the fencing token of its running attempt: every change of state sets it to
-- greatest(clock_timestamp(), last_updated + 1 us), so it never repeats and orders a task's events.
--
-- No index names a column that a claim changes, so that every claim is a HOT update; the low fill factor leaves room for the
-- claimed version on the same page.
create table tasks (
  id bigint generated always as identity primary key,
  route_id int not null,                   -- 0: submitted by SQL, of a route that was not there yet (see arrivals)
  priority int not null default 0,
  queue text not null,
  type text not null,
  details text not null default '',
  status text not null default 'queued' check (status in ('queued', 'executing', 'failed')),
  run_at timestamptz not null,             -- when it is due; infinity: see held_run_at
  attempt smallint not null default 0,
  max_attempts smallint not null default 5,
  timeout_ms bigint not null default 60000,
  retry_base_ms bigint not null default 1000,
  retry_max_ms bigint not null default 3600000,
  worker_id bigint,
  assignment_id bigint,
  expiry timestamptz,
  returns smallint not null default 0,     -- attempts taken back or ended with a lease, in a row
  lane text,
  permits bigint[],
  batch_id bigint,
  key text,
  source text not null default '',
  last_error text,
  error_code text,
  cancel_requested_at timestamptz,
  first_started timestamptz,
  started timestamptz,                     -- the latest ended attempt's token; a running one's is last_updated
  created timestamptz not null,
  last_updated timestamptz not null,
  -- How the delay before the next attempt grows. Null: exponentially from retry_base_ms to retry_max_ms, up to a quarter taken
  -- off at random. Else {"kind": "fixed" | "linear" | "polynomial" | "exponential" | "list", "step_ms": n, "exponent": x,
  -- "delays_ms": [n, …], "jitter_percent": n}.
  retry_policy jsonb,
  remark text,
  stack text,
  version bigint,
  restart jsonb,                           -- what the task is to be when its attempt has ended: a newer version of it was
                                           -- submitted ({"details": …}), or it was to be started again ({})
  stop_code text,                          -- a cancel that was asked for ends the task dead, with this code
  held_run_at timestamptz,                 -- it waits for its batch to begin, or to be admitted, and is due then or at this time
  -- A task of a pipeline is one task from the first stage to the last: its type, details, attempts, timeout and delays are those
  -- of the stage it is in.
  pipeline_id bigint,
  stage text,
  step int,                                -- how many stages it has entered, this one too
  retrying boolean                         -- it failed when it was last written by anything but a claim: true, or null
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02);

-- (id + 0) keeps the primary key the only index on id, so that no plan walks this one to find a row by its id.
create index tasks_ready on tasks (route_id, priority desc, run_at, (id + 0)) where lane is null;
create index tasks_batch on tasks (batch_id, id) where batch_id is not null;
create index tasks_held on tasks (batch_id, id) where held_run_at is not null;
-- Tasks that an attempt has ended of: those that wait to be tried again are among them, the many that wait for their first are
-- not.
create index tasks_tried on tasks (route_id) where started is not null;
create index tasks_pipeline on tasks (pipeline_id) where pipeline_id is not null;

-- How a task ends (see tasks_end): as completed, dead or cancelled, when, whether its worker's report says so, with which result,
-- error and code, remark and stack, and of a dead one whether its last error was one that is tried again.
create type task_end as (id bigint, status text, ended timestamptz, by_report boolean, result text, error text,
  error_code text, remark text, stack text, recoverable boolean);

-- Tasks that were submitted by SQL and are to be admitted: made members of a batch, given a route (theirs is 0 if it was not
-- there yet). Until then their run_at is infinity, held_run_at when they are due, and batch_id null. What is ended or run
-- again meanwhile has no such row in tasks any more, and is left alone.
create table arrivals (
  task_id bigint primary key,
  batch_id bigint);                        -- which batch was asked for; null: its queue's implicit one, or none

-- Attempts that did not end their task, and those of tasks that were retried by hand.
create table task_attempts (
  task_id bigint not null,
  token timestamptz not null,
  attempt smallint not null,
  worker_id bigint,
  assignment_id bigint,
  outcome text not null,                   -- completed, failed, fatal, returned, lease_ended, expired, lost, taken_back
  status text not null,                    -- what the task became
  by_report boolean not null,
  error text,
  error_code text,
  run_at timestamptz,                      -- when the task was due again
  last_updated timestamptz not null,       -- the task's version afterwards
  result text,
  remark text,
  stack text,
  -- Of a pipeline's task: the stage. Of one that ended a stage, its input too; `result` is the next one's.
  stage text,
  type text,                               -- what the task was when the attempt ended; queue and type are null in rows that an
  details text,                            -- old release wrote, whose task is asked
  queue text,
  primary key (task_id, token));
create index task_attempts_when on task_attempts (last_updated, task_id);

-- Everything out of the ordinary in a task's life, with who asked for it.
create table task_events (
  id bigint generated always as identity primary key,
  task_id bigint not null,
  version timestamptz not null,            -- the task's last_updated that the event set or met
  at timestamptz not null default clock_timestamp(),
  event text not null,
  actor text not null default '',
  worker_id bigint,
  note text not null default '');
create index task_events_at on task_events (at, id);
create index task_events_task on task_events (task_id, id);
-- One event for an attempt whose result came too late, however often it is reported.
create unique index task_events_late on task_events (task_id, version) where event = 'late_result';
