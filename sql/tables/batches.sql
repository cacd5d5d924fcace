-- Batches. `phase` says how far one has come: new (no task yet), entry (its entry task runs, its other tasks are held),
-- releasing (they are let go), running, exit (its exit task runs), ended. It goes forward only, each step once.
create table batches (
  id bigint generated always as identity primary key,
  name text not null,
  queue text not null,
  implicit boolean not null,
  phase text not null default 'new' check (phase in ('new', 'entry', 'releasing', 'running', 'exit', 'ended')),
  submitted bigint not null default 0,
  pending bigint not null default 0,
  success bigint not null default 0,
  failed bigint not null default 0,
  callback_url text,
  callback_secret text,
  callback_tasks boolean not null default false,
  callback_type text,
  entry_type text,
  exit_type text,
  entry_id bigint,                         -- its entry task and its exit task, and how they ended
  entry_status text,
  exit_id bigint,
  exit_status text,
  source text not null default '',
  created timestamptz not null default clock_timestamp(),
  started_at timestamptz,                  -- its first task was submitted
  closed_at timestamptz,                   -- no more tasks are taken; those whose entry task failed are closed by that
  stopped boolean not null default false,  -- with its queue: no exit task runs
  ended_at timestamptz
) with (fillfactor = 50);
create index batches_live on batches (id) where phase <> 'ended';
create index batches_queue on batches (queue, id);
