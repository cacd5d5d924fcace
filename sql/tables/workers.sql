-- One row for each incarnation of a worker. Once lost, always lost.
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
  -- The lease that the worker was promised when it registered: whoever watches goes by that, whatever his own options say. A
  -- manager that does not write it leaves the longest that there may be.
  lease_ms bigint not null default 600000,
  by_hand boolean not null default false,  -- nobody sends heartbeats for it; its attempts run until their expiry
  -- What workers report of themselves.
  state text not null default 'running' check (state in ('running', 'paused', 'draining')),
  state_since timestamptz not null default clock_timestamp(),
  succeeded bigint not null default 0,
  failed bigint not null default 0
) with (fillfactor = 50);

-- The incarnations that live: few, beside all that have been. Managers read their sequence numbers several times a second, and
-- look for a name that registers among them. Those who pull by hand may be many, and are asked for nothing. These indexes are on
-- gone_at, not on lost, so that no statement which asks for "not lost" of a worker it knows by its id is planned with them.
create index workers_alive on workers (name) where gone_at is null and not by_hand;
create index workers_by_hand on workers (registered) where gone_at is null and by_hand;
-- The same by number. Heartbeats do not touch it. Whoever asks for them by number adds `registered is not null`, which is always
-- so: a statement that looks for a name must not be planned with this index.
create index workers_here on workers (id) where gone_at is null and registered is not null;
create index workers_gone on workers (gone_at) where gone_at is not null;

-- The coming and going of workers.
create table worker_events (
  id bigint generated always as identity primary key,
  worker_id bigint not null,
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- registered, left, lost, …
  actor text not null default '',
  note text not null default '');
create index worker_events_at on worker_events (at);

-- The journal: who was given which tasks by which Fetch. Whatever ends attempts lowers `open`; zero closes the row.
create table assignments (
  id bigint generated always as identity primary key,
  worker_id bigint not null,
  fetch_id bigint not null,
  at timestamptz not null default clock_timestamp(),
  next_expiry timestamptz,                 -- not later than the earliest expiry of its open attempts
  task_ids bigint[] not null,              -- those won
  open int not null,
  closed_at timestamptz,
  plain_route int                          -- the route of all its tasks, none of which was `retrying`: `open` of that route
                                           -- execute by it. Null: its tasks tell
) with (fillfactor = 50);
alter table assignments alter column task_ids set storage external;
-- What a worker holds, by the Fetches that it was given for: the open rows of one Fetch, or from one on, without a walk over the
-- dead entries of all that are closed.
create index assignments_open on assignments (worker_id, fetch_id) where closed_at is null;
-- By expiry, from a place on, so that locked rows hide nothing behind them (expired_find.sql).
create index assignments_expiry on assignments (next_expiry, id) where closed_at is null and next_expiry is not null;

-- Orders that stand for workers: those of an attempt until it has ended; those for the worker itself (task_id 0, token 'epoch')
-- until they are taken back, or the incarnation is gone.
create table orders (
  worker_id bigint not null,
  task_id bigint not null,
  token timestamptz not null,
  kind text not null,                      -- of an attempt: cancel; of a worker: drain, pause, stop, concurrency
  value int,                               -- of concurrency
  primary key (worker_id, task_id, token, kind));
