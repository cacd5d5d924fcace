-- Ended tasks, partitioned by the day they may go, so that every retention is a DROP of a partition.
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
  worker_id bigint,                        -- the last that held it
  assignment_id bigint,
  token timestamptz,                       -- of the attempt that ended the task; null if none did
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
  stack text,
  version bigint,
  pipeline_id bigint,
  stage text,
  step int,
  recoverable boolean                      -- of a dead one: its last error was one that is tried again; null: another end
) partition by range (keep_until);
create index task_history_task on task_history (task_id);
create index task_history_batch on task_history (batch_id, task_id) where batch_id is not null;
-- Finds what ended lately without a walk over all that is kept: the rows lie in the order of time. Managers summarize it
-- (history_summarize); with autosummarize every completion would write to it: 1.2 us each, a tenth of all that it takes.
create index task_history_ended on task_history using brin (last_updated) with (pages_per_range = 32);
-- What ended dead, by when: few beside all that succeeded.
create index task_history_dead on task_history (last_updated) where status = 'dead';
create table task_history_default partition of task_history default;
-- What is of one day there is found without a walk over all of it.
create index task_history_default_day on task_history_default (keep_until);

-- Files that hold what a partition of the history held, and so allow it to be dropped.
create table archives (
  id bigint generated always as identity primary key,
  partition text not null,
  file text not null,
  tasks bigint not null,
  manager text not null,
  at timestamptz not null default clock_timestamp(),
  dropped timestamptz);                    -- since when the partition is
create index archives_partition on archives (partition) where dropped is null;
