-- Live tasks: they wait, execute, or wait for a retry. Ended tasks are in task_history.
--
-- last_updated is the version of a task and the fencing token of its running attempt: every change of state sets it to
-- greatest(clock_timestamp(), last_updated + 1 us), so it never repeats, and it orders a task's events.
--
-- No index names a column that a claim changes, so that every claim is a HOT update; the low fill factor leaves room
-- for the claimed version on the same page.
--
-- {…}: the lists of columns that statements use by name (sql/lists.awk):
--   kept       stays as it is when the task ends, and when it is started over
--   shown      is read as it is by all that show tasks
--   renewed    a newer version of the task sets it again
--   strings, numbers  what every submit sets; the manager computes it from TaskSpec and the queue
--   submitted  a text that TaskSpec has under the same name; if it is empty there, the column is null
--   assigned   a text that Assignment has under the same name
create table tasks (
  id bigint generated always as identity primary key,
  route_id int not null,                   -- 0: submitted by SQL, and the route did not exist yet (see inbox)
  priority int not null default 0,         -- {kept shown renewed numbers}
  queue text not null,                     -- {kept shown renewed strings}
  type text not null,                      -- {kept shown renewed strings}
  details text not null default '',        -- {kept renewed strings}
  status text not null default 'queued' check (status in ('queued', 'executing', 'failed')), -- {shown}
  run_at timestamptz not null,             -- {shown} when it is due; infinity: see blocked_run_at
  attempt smallint not null default 0,     -- {shown}
  max_attempts smallint not null default DEFAULT_ATTEMPTS, -- {kept shown renewed numbers}
  timeout_ms bigint not null default DEFAULT_TIMEOUT_MS, -- {kept shown renewed numbers}
  retry_base_ms bigint not null default DEFAULT_RETRY_BASE_MS, -- {kept renewed numbers}
  retry_max_ms bigint not null default DEFAULT_RETRY_MAX_MS, -- {kept renewed numbers}
  worker_id bigint,                        -- {kept}
  assignment_id bigint,
  expiry timestamptz,
  returns smallint not null default 0,     -- attempts in a row that were requeued or ended with a lease
  lane text,                               -- {kept} always null: reserved for tasks outside of the order of tasks_ready
  permits bigint[],                        -- of its running attempt: the limits under which it was claimed
  batch_id bigint,                         -- {kept}
  key text,                                -- {kept shown submitted assigned}
  source text not null default '',         -- {kept shown renewed strings}
  last_error text,
  error_code text,
  cancel_requested_at timestamptz,
  first_started timestamptz,
  started timestamptz,                     -- the latest ended attempt's token; a running one's is last_updated
  created timestamptz not null,            -- {kept}
  last_updated timestamptz not null,
  -- How the retry delay grows. Null: exponentially from retry_base_ms to retry_max_ms, minus a random part of up to a
  -- quarter. Else {"kind": "fixed" | "linear" | "polynomial" | "exponential" | "list", "step_ms": n, "exponent": x,
  -- "delays_ms": [n, …], "jitter_percent": n}.
  retry_policy jsonb,                      -- {kept renewed}
  remark text,
  stack_trace text,
  version bigint,                          -- {kept renewed}
  restart jsonb,                           -- what the task becomes when its attempt has ended: a newer version was
                                           -- submitted ({"details": …}), or it is started over ({})
  stop_code text,                          -- a requested cancel ends the task dead, with this code; without a
                                           -- cancel: `hanged`, with which the stopped attempt fails
  blocked_run_at timestamptz,              -- it waits until its batch begins or it is ingested; it is due then or at
                                           -- this time, whichever is later
  -- A task of a pipeline is one task from the first stage to the last. Its type, details, attempts, timeout and retry
  -- delays are those of its current stage.
  pipeline_id bigint,                      -- {kept renewed}
  stage text,                              -- {kept renewed assigned}
  step int,                                -- {kept renewed} how many stages it has entered, including this one
  retrying boolean,                        -- it had failed at its last write other than a claim: true, or null
  traceparent text,                        -- {kept shown renewed submitted assigned} the submitter's trace context
  parent_id bigint,                        -- {kept shown} the task whose handler submitted it
  -- Whatever sets a task to executing by SQL: an attempt that nobody could end is refused.
  constraint tasks_executing check (status <> 'executing' or worker_id is not null and assignment_id is not null
    and expiry is not null)
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02);

-- (id + 0) keeps the primary key the only index on id, so that no plan scans this one to find a row by its id.
create index tasks_ready on tasks (route_id, priority desc, run_at, (id + 0)) where lane is null;
create index tasks_batch on tasks (batch_id, id) where batch_id is not null;
create index tasks_blocked on tasks (batch_id, id) where blocked_run_at is not null;
-- Tasks that wait for a retry, and those that execute after one. Not those that have had attempts but wait for the first one
-- again, for example in the next stage of a pipeline: these may be many.
create index tasks_retrying on tasks (route_id) where retrying;
create index tasks_pipeline on tasks (pipeline_id) where pipeline_id is not null;

-- Ended tasks, partitioned by the day on which they may be deleted, so that retention only drops partitions.
create table task_history (
  keep_until date not null,
  task_id bigint not null,
  route_id int not null,
  priority int not null,
  queue text not null,
  type text not null,
  details text not null,
  status text not null,                    -- completed, dead or cancelled
  run_at timestamptz not null,
  attempt smallint not null,
  max_attempts smallint not null,
  timeout_ms bigint not null,
  retry_base_ms bigint not null,
  retry_max_ms bigint not null,
  worker_id bigint,                        -- the last worker that had it
  assignment_id bigint,
  token timestamptz,                       -- of the attempt that ended the task; null: no attempt ended it
  by_report boolean not null,              -- its worker's report ended it
  lane text,
  batch_id bigint,
  key text,
  source text not null,
  result text,
  last_error text,
  error_code text,
  first_started timestamptz,
  started timestamptz,
  created timestamptz not null,
  last_updated timestamptz not null,       -- when it ended
  retry_policy jsonb,
  remark text,
  stack_trace text,
  version bigint,
  pipeline_id bigint,
  stage text,
  step int,
  recoverable boolean,                     -- of a dead task: its last error allowed a retry; null: it ended otherwise
  traceparent text,
  parent_id bigint
) partition by range (keep_until);
create index task_history_task on task_history (task_id);
create index task_history_batch on task_history (batch_id, task_id) where batch_id is not null;
-- Finds recently ended tasks without a scan of the entire history, since the rows are in the order of time. Managers
-- summarize the index (history_summarize). With autosummarize every completion would write to it, which costs 1.2 us
-- each, a tenth of its total time.
create index task_history_ended on task_history using brin (last_updated) with (pages_per_range = 32);
-- Dead tasks by the time they ended: few, compared with all that completed.
create index task_history_dead on task_history (last_updated) where status = 'dead';
create table task_history_default partition of task_history default;
-- Finds the default partition's rows of one day without a scan of all of them.
create index task_history_default_day on task_history_default (keep_until);

-- How a task ends (see tasks_end): its status (completed, dead or cancelled), the time, whether its worker's report
-- ended it, its result, error, error code, remark and stack trace, and of a dead task whether its last error allowed a retry.
create type task_end as (id bigint, status text, ended timestamptz, by_report boolean, result text, error text,
  error_code text, remark text, stack_trace text, recoverable boolean);

-- The inbox: tasks that were submitted by SQL and that a manager must ingest: add to their batch, and give a route
-- (theirs is 0 if it did not exist). Until then their run_at is infinity, their blocked_run_at the due time, and their
-- batch_id null. A task that was ended or run again before it was ingested has no such row in tasks any more, and is
-- left alone.
create table inbox (
  task_id bigint primary key,
  batch_id bigint);                        -- the requested batch; null: its queue's implicit one, or none
create index inbox_batch on inbox (batch_id) where batch_id is not null;

-- Attempts that did not end their task, and those of tasks that were retried manually or run again with a newer
-- version.
create table task_attempts (
  task_id bigint not null,
  token timestamptz not null,
  attempt smallint not null,
  worker_id bigint,
  assignment_id bigint,
  outcome text not null,                   -- completed, failed, fatal, returned, lease_ended, expired, lost, requeued
  status text not null,                    -- the status of the task afterwards
  by_report boolean not null,
  error text,
  error_code text,
  run_at timestamptz,                      -- when the task was due again
  last_updated timestamptz not null,       -- the task's version afterwards
  result text,
  remark text,
  stack_trace text,
  -- Of a pipeline's task: its stage. If the attempt completed the stage, also its input; `result` is the input of the
  -- next stage.
  stage text,
  type text,                               -- what the task was when the attempt ended. Rows of old releases have null
  details text,                            -- in queue and type; then those of the task apply
  queue text,
  primary key (task_id, token));
create index task_attempts_when on task_attempts (last_updated, task_id);

-- What attempts have reported while they ran: one row each, of the last hundred of a task.
create table task_progress (
  task_id bigint not null,
  token timestamptz not null,
  at timestamptz not null,                 -- the last write
  progress float8,                         -- percent
  sent bigint not null,                    -- the number of its worker's last log line, as that counts its own
  primary key (task_id, token)) with (fillfactor = 50);

-- The log lines of tasks, a row for each write.
create table task_logs (
  task_id bigint not null,
  first bigint not null,                   -- the number of its first line within the task
  last bigint not null,
  attempt smallint not null,
  at timestamptz not null,
  bytes int not null,                      -- of the lines
  lines text[] not null,
  ages_ms bigint[] not null,               -- how long before `at` each was written
  primary key (task_id, first));

-- The audit of tasks: everything out of the ordinary, with its actor.
create table task_events (
  id bigint generated always as identity primary key,
  task_id bigint not null,
  version timestamptz not null,            -- the task's last_updated that the event set or found
  at timestamptz not null default clock_timestamp(),
  event text not null,
  actor text not null default '',
  worker_id bigint,
  note text not null default '');
create index task_events_at on task_events (at, id);
create index task_events_task on task_events (task_id, id);
-- One event for an attempt whose result came too late, or from another identity, however often that is reported.
create unique index task_events_late on task_events (task_id, version, event) where event in ('late_result', 'result_refused');
