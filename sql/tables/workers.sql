-- One row for each incarnation of a worker. A lost incarnation stays lost.
create table workers (
  id bigint generated always as identity primary key,
  name text not null,
  host text not null default '',
  pid int not null default 0,
  version text not null default '',
  concurrency int not null default 1,
  queues text[] not null default '{}',
  types text[] not null default '{}',
  lost boolean not null default false,
  hb_seq bigint not null default 0,
  hb_at timestamptz not null default clock_timestamp(),
  registered timestamptz not null default clock_timestamp(),
  gone_at timestamptz,
  -- The lease that the worker was promised when it registered. Managers watch the worker by this value, whatever their
  -- own options are. Managers that do not write it leave the longest possible lease.
  lease_ms bigint not null default 600000,
  manual boolean not null default false,  -- a pull client: it sends no heartbeats; its attempts run until their expiry
  -- Reported by the workers.
  mode text not null default 'running' check (mode in ('running', 'paused', 'draining')),
  mode_since timestamptz not null default clock_timestamp(),
  completed bigint not null default 0,
  failed bigint not null default 0,
  identity bigint,                        -- who registered it, and alone may act for it, besides admins; null: an admin
  actor text not null default ''          -- the caller that registered it, for the audit
) with (fillfactor = 50);

-- The live incarnations: few, compared with all that there have been. Managers read their sequence numbers several
-- times a second, and check the names that register against theirs. There may be many pull clients, and managers
-- request nothing from them. These indexes are on gone_at, not on lost, so that no statement that checks "not lost" for
-- a worker with a known id is planned with them.
create index workers_alive on workers (name) where gone_at is null and not manual;
create index workers_manual on workers (registered) where gone_at is null and manual;
-- The same by id. Heartbeats do not touch it. A statement that reads the incarnations by id adds
-- `registered is not null`, which is always true: a statement that searches for a name must not be planned with this
-- index.
create index workers_here on workers (id) where gone_at is null and registered is not null;
create index workers_gone on workers (gone_at) where gone_at is not null;

-- The audit of workers: registrations, departures, losses and commands.
-- Attempts of a worker by queue and batch (0: none), as it reports them.
create table worker_counts (
  worker_id bigint not null,
  queue text not null,
  batch_id bigint not null,
  completed bigint not null,
  failed bigint not null,
  primary key (worker_id, queue, batch_id)
) with (fillfactor = 50);
create index worker_counts_batch on worker_counts (batch_id) where batch_id <> 0;

create table worker_events (
  id bigint generated always as identity primary key,
  worker_id bigint not null,
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- registered, left, lost, …
  actor text not null default '',
  note text not null default '');
create index worker_events_at on worker_events (at);

-- The journal: which Fetch assigned which tasks to which worker. Every statement that ends attempts lowers `open`; zero
-- closes the row.
create table assignments (
  id bigint generated always as identity primary key,
  worker_id bigint not null,
  fetch_id bigint not null,
  at timestamptz not null default clock_timestamp(),
  next_expiry timestamptz,                 -- not later than the earliest expiry of its open attempts
  task_ids bigint[] not null,              -- the tasks that the claim won
  open int not null,
  closed_at timestamptz,
  plain_route int                          -- the route of all its tasks, if none was `retrying`: `open` of that route
                                           -- execute. Null: the rows of its tasks show it
) with (fillfactor = 50);
alter table assignments alter column task_ids set storage external;
-- The tasks of a worker by Fetch: finds the open rows of one Fetch, or from one on, without a scan of the dead index
-- entries of closed rows.
create index assignments_open on assignments (worker_id, fetch_id) where closed_at is null;
-- By expiry, from a given place on, so that locked rows hide none after them (expired_find.sql).
create index assignments_expiry on assignments (next_expiry, id) where closed_at is null and next_expiry is not null;

-- Worker commands: those about an attempt until it has ended; those to the worker itself (task_id 0, token 'epoch')
-- until they are withdrawn or the incarnation is gone.
create table worker_commands (
  worker_id bigint not null,
  task_id bigint not null,
  token timestamptz not null,
  kind text not null,                      -- about an attempt: cancel; to a worker: drain, pause, stop, concurrency
  value int,                               -- the concurrency to set
  primary key (worker_id, task_id, token, kind));
