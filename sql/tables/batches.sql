-- Batches. `phase` is the progress of a batch: new (no task yet), entry (its entry task runs, its other tasks are
-- blocked), releasing (its blocked tasks are being released), running, exit (its exit task runs), ended. The phase only
-- moves forward, and each step happens once.
create table batches (
  id bigint generated always as identity primary key,
  name text not null,
  queue text not null,
  implicit boolean not null,
  phase text not null default 'new' check (phase in ('new', 'entry', 'releasing', 'running', 'exit', 'ended')),
  submitted bigint not null default 0,
  pending bigint not null default 0,
  completed bigint not null default 0,
  failed bigint not null default 0,
  callback_url text,
  callback_secret text,
  callback_tasks boolean not null default false,
  callback_type text,
  entry_type text,
  exit_type text,
  entry_id bigint,                         -- its entry and exit task, and their final statuses
  entry_status text,
  exit_id bigint,
  exit_status text,
  source text not null default '',
  created timestamptz not null default clock_timestamp(),
  started_at timestamptz,                  -- when its first task was submitted
  closed_at timestamptz,                   -- when it closed to further tasks; a failed entry task closes it, too
  stopped boolean not null default false,  -- stopped with its queue: no exit task runs
  ended_at timestamptz,
  callback_attempts boolean not null default false
) with (fillfactor = 50);
create index batches_live on batches (id) where phase <> 'ended';
create index batches_queue on batches (queue, id);
