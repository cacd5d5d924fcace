-- The tables of Reeve. Everything lives in the schema `reeve`; the manager's connections have it as their search path.
--
-- last_updated is a task's version and the fencing token of its running attempt: every change of state sets it to
-- greatest(clock_timestamp(), last_updated + 1 us), so it never repeats and orders a task's events.

-- Everything that decides which worker may run a task, as one small number: what the ready index starts with.
create table routes (
  id int generated always as identity primary key,
  queue text not null,
  type text not null,
  labels text[] not null default '{}',
  created timestamptz not null default clock_timestamp(),
  unique (queue, type, labels));

-- One row for each manager that has ever run here; equal to each other.
create table managers (
  id bigint generated always as identity primary key,
  name text not null,
  hb_seq bigint not null default 0,
  hb_at timestamptz not null default clock_timestamp(),
  started timestamptz not null default clock_timestamp(),
  stopped boolean not null default false
) with (fillfactor = 50);

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
  gone_at timestamptz
) with (fillfactor = 50);

-- Live tasks. No index names a column that a claim changes, so that every claim is a HOT update; the low fill factor
-- leaves room for the claimed version on the same page.
create table tasks (
  id bigint generated always as identity primary key,
  route_id int not null,
  priority int not null default 0,
  queue text not null,
  type text not null,
  details text not null default '',
  status text not null default 'queued' check (status in ('queued', 'executing', 'failed')),
  run_at timestamptz not null,
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
  last_updated timestamptz not null
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02);

-- (id + 0) keeps the primary key the only index on id, so that no plan walks this one to find a row by its id.
create index tasks_ready on tasks (route_id, priority desc, run_at, (id + 0)) where lane is null;

-- Finished tasks, partitioned by the day they may go, so that every retention is a DROP of a partition.
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
  last_updated timestamptz not null        -- when it ended
) partition by range (keep_until);
create index task_history_task on task_history (task_id);
create table task_history_default partition of task_history default;

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
  primary key (task_id, token));
create index task_attempts_when on task_attempts (last_updated);

-- Everything out of the ordinary in a task's life, with who asked for it.
create table task_events (
  id bigint generated always as identity primary key,
  task_id bigint not null,
  version timestamptz not null,            -- the task's last_updated that the event made or met
  at timestamptz not null default clock_timestamp(),
  event text not null,
  actor text not null default '',
  worker_id bigint,
  note text not null default '');
create index task_events_task on task_events (task_id);
create index task_events_at on task_events (at);

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
  closed_at timestamptz
) with (fillfactor = 50);
alter table assignments alter column task_ids set storage external;
create index assignments_open on assignments (worker_id) where closed_at is null;
create index assignments_expiry on assignments (next_expiry) where closed_at is null and next_expiry is not null;

-- Orders that stand for workers until the attempt they speak of has ended.
create table orders (
  worker_id bigint not null,
  task_id bigint not null,
  token timestamptz not null,
  kind text not null,                      -- cancel
  at timestamptz not null default clock_timestamp(),
  primary key (worker_id, task_id, token, kind));

-- One row for each changing call, so that a call sent twice does its work once.
create table requests (
  id uuid primary key,                     -- of version 7: in the order of time
  kind text not null default 'submit',     -- submit, cancel, retry or update
  task_ids bigint[] not null,              -- the ids answered
  existing boolean[] not null default '{}',-- for a submit with keys: which of them were there already
  at timestamptz not null default clock_timestamp());

-- Idempotency keys.
create table keys (
  queue text not null,
  key text not null,
  task_id bigint not null,
  keep_ms bigint,                          -- lifetime from the submit, where the caller gave one
  expires_at timestamptz,                  -- null: not before the task has ended
  primary key (queue, key));
create index keys_expiry on keys (expires_at) where expires_at is not null;

-- Live and finished tasks as one. Read it in ONE statement: a task that moves from one table to the other between two
-- would be missed.
create view all_tasks as
  select id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, details,
    null::text as result, last_error, error_code, worker_id, last_updated, created,
    case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
    case when status = 'executing' then last_updated else started end as started,
    null::timestamptz as finished, expiry, cancel_requested_at is not null as cancel_requested, lane, batch_id, route_id
  from tasks
  union all
  select task_id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, details,
    result, last_error, error_code, worker_id, last_updated, created, first_started, started,
    last_updated, null, false, lane, batch_id, route_id
  from task_history;

-- The whole story in order. The ordinary events are derived from the rows that hold them already; `version` and `place`
-- order the events of a task, whatever the clock did. No event is later than the day its row may go (keep_until), which
-- tells what partitions a look from some time on can leave out.
create view audit_log as
  select created as at, id as task_id, created as version, 0 as place, 'submitted' as event, null::bigint as worker_id,
    null::smallint as attempt, source as actor, '' as note, 'infinity'::date as keep_until
  from tasks
  union all
  select created, task_id, created, 0, 'submitted', null, null, source, '', keep_until
  from task_history
  union all
  select last_updated, id, last_updated, 1, 'claimed', worker_id, attempt, '', 'assignment ' || assignment_id, 'infinity'
  from tasks where status = 'executing'
  union all
  select token, task_id, token, 1, 'claimed', worker_id, attempt, '', 'assignment ' || assignment_id, keep_until
  from task_history where token is not null
  union all
  select last_updated, task_id, last_updated, 2, status, worker_id, case when token is not null then attempt end, '',
    case when status <> 'completed' then concat_ws(': ', error_code, last_error) else '' end, keep_until
  from task_history
  union all
  select token, task_id, token, 1, 'claimed', worker_id, attempt, '', 'assignment ' || assignment_id, 'infinity'
  from task_attempts
  union all
  select last_updated, task_id, last_updated, 2,
    case when status in ('completed', 'dead', 'cancelled') then status else outcome end,
    worker_id, attempt, '', concat_ws(': ', error_code, error), 'infinity'
  from task_attempts
  union all
  select at, task_id, version, 3, event, worker_id, null, actor, note, 'infinity'
  from task_events;

-- Makes the partitions of task_history for the days [first, first + days) that do not exist yet, each made apart and
-- then attached, so that nobody waits long. What the default partition has of a day moves along. Returns how many it made.
create function make_history_partitions(first date, days int) returns int language plpgsql as $$
declare
  day date;
  name text;
  made int := 0;
begin
  perform pg_advisory_xact_lock(hashtext('reeve.task_history partitions'));
  for day in select first + n from generate_series(0, days - 1) n loop
    name := 'task_history_' || to_char(day, 'YYYYMMDD');
    if to_regclass('reeve.' || name) is null then
      execute format('create table reeve.%I (like reeve.task_history including all)', name);
      execute format('with moved as (delete from reeve.task_history_default where keep_until = %L returning *)
        insert into reeve.%I select * from moved', day, name);
      execute format('alter table reeve.task_history attach partition reeve.%I for values from (%L) to (%L)',
        name, day, day + 1);
      made := made + 1;
    end if;
  end loop;
  return made;
end $$;

-- Drops one partition whose day is over, the oldest. Returns its name, or null if there is none.
create function drop_history_partition(today date) returns text language plpgsql as $$
declare
  name text;
begin
  select c.relname into name
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]{8}$'
    and to_date(right(c.relname, 8), 'YYYYMMDD') < today
  order by c.relname limit 1;
  if name is not null then
    execute format('drop table reeve.%I', name);
  end if;
  return name;
end $$;
