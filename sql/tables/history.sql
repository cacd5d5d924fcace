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
  recoverable boolean                      -- of a dead task: its last error allowed a retry; null: it ended otherwise
) partition by range (keep_until);
create index task_history_task on task_history (task_id);
create index task_history_batch on task_history (batch_id, task_id) where batch_id is not null;
-- Finds recently ended tasks without a scan of the entire history, since the rows are in the order of time. Managers
-- summarize the index (history_summarize). With autosummarize every completion would write to it, which costs 1.2 us
-- each, a tenth of its total time.
create index task_history_ended on task_history using brin (last_updated) with (pages_per_range = 32);
-- Dead tasks by the time they ended: few, compared with all that succeeded.
create index task_history_dead on task_history (last_updated) where status = 'dead';
create table task_history_default partition of task_history default;
-- Finds the default partition's rows of one day without a scan of all of them.
create index task_history_default_day on task_history_default (keep_until);

-- Archive files. Once a file holds the tasks of a partition of the history, the partition may be dropped.
create table archives (
  id bigint generated always as identity primary key,
  partition text not null,
  file text not null,
  tasks bigint not null,
  manager text not null,
  at timestamptz not null default clock_timestamp(),
  dropped timestamptz);                    -- when the partition was dropped
create index archives_partition on archives (partition) where dropped is null;
