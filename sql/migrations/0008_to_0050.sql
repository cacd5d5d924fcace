-- From the schema of version 8, the first that was released. What each column and index is for stands in sql/tables/. Counts what
-- lives and what has ended, while nobody else writes.
lock table tasks, task_history in share row exclusive mode;

-- Functions and views with new names, parameters or columns; the new ones are created after this.
do $$
declare
  old regprocedure;
begin
  for old in
    select oid from pg_proc where pronamespace = 'reeve'::regnamespace and proname in ('arrivals_admit', 'arrivals_admit_next',
      'attempts_summary', 'attempts_told', 'backoff_spec', 'batch_open', 'batch_step', 'batch_tell', 'cron_next', 'details_most', 'metrics_put', 'pipeline_start', 'queue_shown', 'queue_told', 'retry_rest_ms',
      'schedule_key', 'schedule_key_problem', 'schedule_make', 'schedule_planned', 'schedule_tick', 'schedule_told', 'schedules_tick',
      'submit_batches', 'zone_check')
  loop
    execute format('drop function %s', old);
  end loop;
end $$;
drop view dead_tasks, long_running_tasks, all_tasks, batches_shown, schedules_shown;

create table schema_definitions (
  name text primary key,
  hash text not null,
  release text not null,
  applied timestamptz not null default clock_timestamp());

-- Requests.
alter table requests alter column task_ids set storage external;

-- Routes and managers.
alter table routes
  drop column created,
  drop column labels,
  add unique (queue, type),
  add column retired timestamptz,
  add column used timestamptz not null default statement_timestamp();
create index routes_in_use on routes (id) where retired is null;
alter table managers
  drop column started,
  add column clock_estimate timestamptz,
  add column clock_ahead_until timestamptz,
  add column clock_set_back timestamptz,
  add column clock_set_back_xid xid8,
  add column history_days int,
  add column version text;
create table locks (
  name text primary key,
  holder bigint);
insert into locks (name)
select unnest(array['history', 'metrics', 'archive', 'counts', 'depths', 'identities']) union all select 'worker ' || n from generate_series(0, 63) n;

-- Workers.
alter table workers rename column by_hand to manual;
alter table workers rename column state to mode;
alter table workers rename column succeeded to completed;
alter table workers rename column state_since to mode_since;
alter table workers rename constraint workers_state_check to workers_mode_check;
alter index workers_by_hand rename to workers_manual;
alter table workers add column identity bigint, add column actor text not null default '';
create index workers_here on workers (id) where gone_at is null and registered is not null;
create index workers_gone on workers (gone_at) where gone_at is not null;
alter table assignments add column plain_route int;
drop index assignments_expiry;
create index assignments_expiry on assignments (next_expiry, id) where closed_at is null and next_expiry is not null;
alter table orders rename to worker_commands;
alter table worker_commands rename constraint orders_pkey to worker_commands_pkey;
alter table worker_commands drop column at;

alter table arrivals rename to inbox;
alter table inbox rename constraint arrivals_pkey to inbox_pkey;
create index inbox_batch on inbox (batch_id) where batch_id is not null;

-- Queues.
alter table queues rename column is_held to not_started;
alter table queues drop constraint queues_state_check;
update queues set state = 'not_started' where state = 'held';
alter table queues add constraint queues_state_check check (state in ('running', 'not_started', 'paused', 'stopping', 'stopped'));
alter table queues rename column keep_completed_days to keep_completed_hours;
alter table queues rename column keep_dead_days to keep_dead_hours;
alter table queues rename column keep_cancelled_days to keep_cancelled_hours;
update queues set keep_completed_hours = keep_completed_hours * 24, keep_dead_hours = keep_dead_hours * 24,
  keep_cancelled_hours = keep_cancelled_hours * 24;

-- Batches.
alter table batches rename column success to completed;

-- Schedules.
alter table schedules rename column missed to catch_up;
alter table schedules rename column missed_most to max_catch_up;
alter table schedules rename column overlap to concurrency_policy;
alter table schedules rename constraint schedules_missed_check to schedules_catch_up_check;
alter table schedules drop constraint schedules_overlap_check;
update schedules set concurrency_policy = 'forbid' where concurrency_policy = 'skip';
alter table schedules add constraint schedules_concurrency_policy_check check (concurrency_policy in ('allow', 'forbid', 'queue'));
alter table schedule_runs rename column planned_at to scheduled_at;
alter table schedule_runs rename constraint schedule_runs_schedule_id_planned_at_key to schedule_runs_schedule_id_scheduled_at_key;

-- Tasks. Of the events of an attempt whose result came too late, one stays. Events and outcomes get their new names.
alter table tasks rename column held_run_at to blocked_run_at;
alter table tasks rename column stack to stack_trace;
alter table tasks
  add column retrying boolean,
  add column traceparent text,
  add column parent_id bigint;
alter table task_attempts rename column stack to stack_trace;
alter table task_history rename column stack to stack_trace;
alter table task_history add column traceparent text, add column parent_id bigint;
alter index tasks_held rename to tasks_blocked;
drop index tasks_tried;
create index tasks_retrying on tasks (route_id) where retrying;
-- A task that plain SQL has set to executing has no attempt that could end: it gets one, which expires.
with stuck as (
  select id, clock_timestamp() + interval '1ms' * timeout_ms + interval '30 s' as expiry from tasks
  where status = 'executing' and (worker_id is null or assignment_id is null or expiry is null)),
 journal as (
  insert into assignments (worker_id, fetch_id, next_expiry, task_ids, open) select 0, 0, expiry, array[id], 1 from stuck
  returning id, next_expiry, task_ids)
update tasks t set worker_id = 0, assignment_id = j.id, expiry = j.next_expiry from journal j where t.id = j.task_ids[1];
alter table tasks add constraint tasks_executing check (status <> 'executing' or worker_id is not null and assignment_id is not null
  and expiry is not null);
create type task_end as (id bigint, status text, ended timestamptz, by_report boolean, result text, error text,
  error_code text, remark text, stack_trace text, recoverable boolean);
create index tasks_pipeline on tasks (pipeline_id) where pipeline_id is not null;
drop index task_attempts_when;
create index task_attempts_when on task_attempts (last_updated, task_id);
drop index task_events_at;
create index task_events_at on task_events (at, id);
drop index task_events_task;
create index task_events_task on task_events (task_id, id);
delete from task_events e using task_events o
where e.event = 'late_result' and o.event = 'late_result' and e.task_id = o.task_id and e.version = o.version and o.id < e.id;
update task_events set event = case event when 'taken_back' then 'requeued' else 'discard_requested' end
where event in ('taken_back', 'kill_requested');
update task_attempts set outcome = 'requeued' where outcome = 'taken_back';
update tasks set stop_code = 'discarded' where stop_code = 'killed';
update worker_events set event = case event when 'drain_ordered' then 'drain_requested' else 'stop_requested' end
where event in ('drain_ordered', 'stop_ordered');
update queue_events set event = 'queue_stop_requested' where event = 'queue_stop_ordered';
create unique index task_events_late on task_events (task_id, version, event) where event in ('late_result', 'result_refused');

-- History. Keys that were to expire a day after the end of their task stay as long as it.
update keys k set expires_at = null
where keep_ms is null and version is null and expires_at is not null and exists (select from task_history h where h.task_id = k.task_id);
create index task_history_default_day on task_history_default (keep_until);

-- Callbacks. Each try that was begun counts as taken. next_set_at stays null of those that are there.
drop index callbacks_open;
create index callbacks_open on callbacks (batch_id, state, id) where state <> 'delivered';
create index callbacks_undelivered on callbacks (state, id) where state <> 'delivered';
alter table callbacks
  add column next_set_at timestamptz,
  add column takes int not null default 0;
alter table callbacks alter column next_set_at set default clock_timestamp();
update callbacks set takes = attempts where state = 'waiting';

-- Pipelines.
alter table pipelines
  add column unused_since timestamptz,
  add column unused_xid xid8;
create index pipelines_replaced on pipelines (id) where replaced_at is not null;

-- Counts.
create table count_changes (
  keep_until date,
  route_id int not null,
  status text,
  count bigint not null default 0,
  due timestamptz,
  live bigint not null default 0,
  retrying bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create table live_counts (
  route_id int primary key,
  live bigint not null,
  retrying bigint not null,
  delayed bigint not null
) with (fillfactor = 50);
create table live_due (
  due timestamptz not null,
  route_id int not null,
  count bigint not null,
  primary key (due, route_id));
create table history_counts (
  route_id int not null,
  status text not null,
  count bigint not null,
  primary key (route_id, status));
create table history_day_counts (
  keep_until date not null,
  route_id int not null,
  status text not null,
  count bigint not null,
  primary key (keep_until, route_id, status));

insert into history_day_counts select keep_until, route_id, status, count(*) from task_history group by 1, 2, 3;
insert into history_counts select route_id, status, sum(count) from history_day_counts group by 1, 2;

-- As live_recount does.
update tasks set retrying = true where status = 'failed';
insert into live_due
select date_bin('1 second', run_at, '2000-01-01 00:00:00+00') as second, route_id, count(*)
from tasks
where status = 'queued' and run_at > last_updated
  and date_bin('1 second', run_at, '2000-01-01 00:00:00+00') > clock_timestamp()
group by 1, 2;
insert into live_counts
select route_id, count(*), count(retrying), coalesce((select sum(d.count) from live_due d where d.route_id = t.route_id), 0)
from tasks t group by route_id;

-- Limits of the tasks of a queue that execute at once; the waiting period after the start of a batch or queue; counts of
-- workers by queue and batch.
alter table queues
  add column waiting_until timestamptz,
  add column max_running int,
  add column key_ttl_ms bigint not null default 0;
drop index queues_halted;
create index queues_halted on queues (name)
  where state <> 'running' or max_running is not null or waiting_until is not null;
create table limits (
  id bigint generated always as identity primary key,
  queue text not null unique,
  maximum int not null,
  taken int not null default 0
) with (fillfactor = 50);
create table worker_counts (
  worker_id bigint not null,
  queue text not null,
  batch_id bigint not null,
  completed bigint not null,
  failed bigint not null,
  primary key (worker_id, queue, batch_id)
) with (fillfactor = 50);
create index worker_counts_batch on worker_counts (batch_id) where batch_id <> 0;

-- Statistics of executions: those that completed and those that did not are counted separately, with the duration of the
-- last one. Of hours with both, the time is divided by their numbers.
create table executions_new (
  hour timestamptz not null,
  queue text not null,
  type text not null,
  well boolean not null,
  count bigint not null,
  total_us bigint not null,
  fastest_us bigint not null,
  slowest_us bigint not null,
  last timestamptz not null,
  last_us bigint,
  primary key (hour, queue, type, well));
insert into executions_new
select x.hour, x.queue, x.type, v.well, v.count, (x.total_us::numeric * v.count / x.count)::bigint, x.fastest_us, x.slowest_us, x.last, null
from executions x cross join lateral (values (true, x.completed), (false, x.count - x.completed)) v(well, count)
where v.count > 0;
drop table executions;
alter table executions_new rename to executions;
alter index executions_new_pkey rename to executions_pkey;
drop function if exists executions_page(text, text, boolean, timestamptz, text, bigint);

-- The number of missed times, which was only in the note.
alter table schedule_runs add column missed bigint;
update schedule_runs set missed = coalesce(substring(note from '^(?:more than )?(\d+) were missed')::bigint, 1) where outcome = 'missed';

drop function if exists audit_page(text, timestamptz, int);

-- Metrics are exact integers, or doubles.
alter table metrics alter column value type numeric using value::text::numeric;

-- Defaults of a queue's tasks.
alter table queues add column priority int, add column timeout_ms bigint;

-- Callbacks after attempts.
alter table queues add column callback_attempts boolean not null default false;
alter table batches add column callback_attempts boolean not null default false;
alter table callbacks drop constraint callbacks_event_check;
alter table callbacks add constraint callbacks_event_check check (event in ('batch_begin', 'batch_end', 'task_end', 'attempt_end'));

-- Who may call. A row is an access token, a local user or a certificate; its name says in the audit who did something.
create table identities (
  id bigint generated always as identity primary key,
  name text not null,
  -- As Rights in token.proto: {"roles": ["worker"], "queues": ["mail"], …}
  rights jsonb not null,
  hash bytea,                              -- of an access token: the SHA-256 of its secret
  uid bigint,                              -- of a local user: its number
  certificate boolean not null default false, -- of callers whose certificate has the URI reeve://NAME
  created timestamptz not null default clock_timestamp(),
  created_by text not null default '',
  expires timestamptz not null default 'infinity',
  valid_ms bigint,                         -- how long a new secret is valid; null: until it is revoked
  revoked timestamptz,
  constraint identities_kind check (num_nonnulls(hash, uid, nullif(certificate, false)) = 1)
);
create unique index identities_name on identities (name) where revoked is null;
create unique index identities_uid on identities (uid) where revoked is null;

-- After rotations: the secrets before the current one that are still valid.
create table old_secrets (
  identity_id bigint not null,
  hash bytea not null,                     -- the SHA-256
  valid_until timestamptz not null,
  primary key (identity_id, hash)
);

-- When identities were last used, up to a minute before. Not in their rows, because managers reload those that change.
create table identity_uses (
  identity_id bigint primary key,
  last_used timestamptz not null
) with (fillfactor = 50);

-- The audit of identities.
create table identity_events (
  id bigint generated always as identity primary key,
  identity text not null,                  -- its name
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- token_created, token_rotated, token_revoked
  actor text not null default '',
  note text not null default '');
create index identity_events_at on identity_events (at);

-- The key that signs the access tokens of attempts (common/credential.h).
create table credential_key (
  id int primary key check (id = 1),
  key bytea not null);
insert into credential_key values (1, sha256(convert_to(concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8')));

-- Idempotency keys of calls by HTTP.
create table call_keys (
  key uuid primary key,
  request_id uuid not null,
  request uuid not null);
create index call_keys_request_id on call_keys (request_id);

-- Numbers of what managers do, by minute and hour.
create table activity (
  hourly boolean not null,
  at timestamptz not null,
  route_id int not null,
  submitted bigint not null,
  begun bigint not null,
  completed bigint not null,
  failed bigint not null,
  retried bigint not null,
  dead bigint not null,
  ended bigint not null,
  waited bigint[] not null,
  waited_us bigint not null,
  took bigint[] not null,
  took_us bigint not null,
  primary key (hourly, at, route_id)
) with (fillfactor = 50);

-- Progress and log lines of attempts.
create table task_progress (
  task_id bigint not null,
  token timestamptz not null,
  at timestamptz not null,
  progress float8,
  sent bigint not null,
  primary key (task_id, token)) with (fillfactor = 50);
create table task_logs (
  task_id bigint not null,
  first bigint not null,
  last bigint not null,
  attempt smallint not null,
  at timestamptz not null,
  bytes int not null,
  lines text[] not null,
  ages_ms bigint[] not null,
  primary key (task_id, first));

-- How many tasks there were, by minute and hour.
create table depths (
  hourly boolean not null,
  at timestamptz not null,
  queue text not null,
  samples int not null,
  queued bigint not null,
  delayed bigint not null,
  executing bigint not null,
  failed bigint not null,
  dead bigint not null,
  max_queued bigint not null,
  max_delayed bigint not null,
  max_executing bigint not null,
  max_failed bigint not null,
  max_dead bigint not null,
  primary key (hourly, queue, at)
) with (fillfactor = 80);
create index depths_at on depths (hourly, at);
