-- Queues with settings, batches, callbacks; what a task keeps of its attempts; versions of keyed tasks.

-- retry_policy: how a failed attempt's rest grows, null: exponentially from retry_base_ms, at most retry_max_ms, up to a
-- quarter taken off at random. Else {"kind": "fixed" | "linear" | "polynomial" | "exponential" | "list", "step_ms": n,
-- "exponent": x, "delays_ms": [n, …], "jitter_percent": n}.
-- stop_code: a cancel that was asked for ends the task dead, with this code. restart: what the task is to be when its attempt
-- has ended, because a newer version of it was submitted meanwhile ({"details": …}) or it was to be started again ({}).
-- held_run_at: it waits for its batch to begin (run_at is infinity), and is due then or at this time.
alter table tasks
  add column retry_policy jsonb,
  add column remark text,
  add column stack text,
  add column version bigint,
  add column restart jsonb,
  add column stop_code text,
  add column held_run_at timestamptz;
create index tasks_batch on tasks (batch_id, id) where batch_id is not null;
create index tasks_held on tasks (batch_id, id) where held_run_at is not null;

alter table task_history
  add column retry_policy jsonb,
  add column remark text,
  add column stack text,
  add column version bigint;
create index task_history_batch on task_history (batch_id, task_id) where batch_id is not null;

alter table task_attempts
  add column result text,
  add column remark text,
  add column stack text;

-- For a submit with versions: which of its tasks were run again.
alter table requests add column restarted boolean[] not null default '{}';

-- The version of a keyed task, null if it was submitted without one. Such a key is kept for a year after its last submit.
alter table keys add column version bigint;

-- Queues that somebody has set something of. One that is not here has the defaults that stand here.
create table queues (
  name text primary key,
  state text not null default 'running' check (state in ('running', 'held', 'paused', 'stopping', 'stopped')),
  state_since timestamptz not null default clock_timestamp(),
  is_held boolean not null default false,  -- of a paused one: it waits to be started when it is resumed
  stopped_at timestamptz,                  -- when it was stopped last, by whom, and the newest task's id then: all up to
  stopped_by text,                         -- that one end dead
  stopped_id bigint,
  batches boolean not null default false,  -- implicit ones
  batch_id bigint,                         -- the implicit one that is open
  autostart boolean not null default true, -- else a new batch is held until the queue is started
  is_verbose boolean not null default false,
  max_attempts int,                        -- of tasks that don't say
  retry_base_ms bigint,
  retry_max_ms bigint,
  retry_policy jsonb,
  resting_ms bigint not null default 0,    -- a slot rests so long between two tasks
  waiting_ms bigint not null default 0,    -- a worker waits so long before its first
  callback_url text,
  callback_secret text,
  callback_tasks boolean not null default false, -- after each task, too
  callback_type text,                      -- a task of this type is submitted
  entry_type text,
  exit_type text,
  keep_completed_days int,
  keep_dead_days int,
  keep_cancelled_days int,
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp());

-- Those whose tasks nobody may take: every claim reads it.
create index queues_halted on queues (name) where state <> 'running';

-- What was done with queues, by whom.
create table queue_events (
  id bigint generated always as identity primary key,
  queue text not null,
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- queue_set, queue_paused, queue_stopped, …
  actor text not null default '',
  note text not null default '');
create index queue_events_at on queue_events (at);
-- Those whose completed tasks are not kept as long as usual: every completion asks whether there are any.
create index queues_keeping on queues (name) where keep_completed_days is not null;

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

-- What is to be told to somebody by HTTP, once each. `id` is what a receiver may know a repeated one by. `attempts` counts
-- tries begun; while one is under way, next_at says when others may take it to be lost. `site` is the URL's host and port:
-- those of one site are taken a few at a time, so that one that hangs does not hold up the others.
create table callbacks (
  id bigint generated always as identity primary key,
  batch_id bigint not null,
  task_id bigint,                          -- of which task; null: of the batch
  event text not null check (event in ('batch_begin', 'batch_end', 'task_end')),
  url text not null,
  site text not null generated always as (coalesce(lower(substring(url from '^[^:/]+://([^/?#]*)')), '')) stored,
  secret text,
  payload text,                            -- null: the batch's report, made when it is sent
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'given_up')),
  attempts int not null default 0,
  next_at timestamptz not null default clock_timestamp(),
  last_status int,
  last_error text,
  created timestamptz not null default clock_timestamp(),
  ended_at timestamptz
) with (fillfactor = 50);
create index callbacks_due on callbacks (site, next_at) where state = 'waiting';
create index callbacks_batch on callbacks (batch_id, id);
create index callbacks_open on callbacks (batch_id, state) where state <> 'delivered';
create index callbacks_ended on callbacks (ended_at) where ended_at is not null;

-- A time as the contract's JSON has it.
create function time_text(at timestamptz) returns text language sql stable parallel safe as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;

-- Batches as they are shown. remaining_ms: what is pending takes as long as what has ended did; -1: nobody can tell yet.
create view batches_shown as
  select b.id, b.name, b.queue, b.implicit,
    case when b.phase = 'ended' then 'ended' when b.closed_at is not null then 'closed' else 'open' end as state,
    b.phase, b.submitted, b.pending, b.success, b.failed, b.created, b.started_at, b.closed_at, b.ended_at,
    took.ms as duration_ms,
    case when b.phase = 'new' then -1 when b.pending = 0 then 0 when b.success + b.failed = 0 then -1
      else took.ms * b.pending / (b.success + b.failed) end as remaining_ms,
    b.entry_id, b.entry_status, b.exit_id, b.exit_status, b.source,
    (select count(*) from callbacks c where c.batch_id = b.id and c.state = 'waiting') as callbacks_waiting,
    (select count(*) from callbacks c where c.batch_id = b.id and c.state = 'given_up') as callbacks_given_up
  from batches b cross join lateral (
    select coalesce(extract(epoch from coalesce(b.ended_at, clock_timestamp()) - b.started_at) * 1000, 0)::bigint as ms) took;

-- What workers say of themselves, and what is wished of them. by_hand: nobody sends heartbeats for it; its attempts run until their expiry.
alter table workers
  add column by_hand boolean not null default false,
  add column state text not null default 'running' check (state in ('running', 'paused', 'draining')),
  add column state_since timestamptz not null default clock_timestamp(),
  add column succeeded bigint not null default 0,
  add column failed bigint not null default 0;

-- The incarnations that live are few beside all that have been; those who pull by hand may be many, and are asked for nothing.
drop index workers_alive;
create index workers_alive on workers (name) where gone_at is null and not by_hand;
create index workers_by_hand on workers (registered) where gone_at is null and by_hand;

-- Orders for a worker itself (task_id 0, token 'epoch'): drain, pause, stop, concurrency (value). They stand until they are
-- taken back, or the incarnation is gone.
alter table orders add column value int;

-- A route's number, made if need be.
create function route_of(wanted_queue text, wanted_type text) returns int language plpgsql as $$
declare
  found int;
begin
  select id into found from routes where queue = wanted_queue and type = wanted_type and labels = '{}';
  if found is null then
    insert into routes (queue, type) values (wanted_queue, wanted_type) on conflict do nothing returning id into found;
    if found is null then
      select id into found from routes where queue = wanted_queue and type = wanted_type and labels = '{}';
    end if;
  end if;
  return found;
end $$;

-- How long a task rests after its n-th attempt failed, in ms, before the random part is taken off.
create function retry_rest_ms(policy jsonb, base bigint, longest bigint, n int) returns float8
language sql immutable parallel safe as $$
  select least(longest::float8, case coalesce(policy ->> 'kind', 'exponential')
    when 'fixed' then base::float8
    when 'linear' then base + (n - 1) * (policy ->> 'step_ms')::float8
    when 'polynomial' then base * power(n::float8, (policy ->> 'exponent')::float8)
    when 'list' then (policy -> 'delays_ms' ->> least(n - 1, jsonb_array_length(policy -> 'delays_ms') - 1))::float8
    else base * power(2::float8, least(n - 1, 60)) end)
$$;

-- The rest after a queue's tasks' first failed attempt, in ms: where a linear policy says none, the resting period is it.
create function queue_retry_base_ms(q queues, otherwise bigint) returns bigint language sql immutable parallel safe as $$
  select coalesce(q.retry_base_ms, case when q.retry_policy ->> 'kind' = 'linear' then q.resting_ms end, otherwise)
$$;

-- A task that Reeve itself submits, in the transaction of whatever caused it; the managers are told. Its options are the queue's.
create function submit_internal(in_queue text, of_type text, with_details text, in_batch bigint, by text) returns bigint
language plpgsql as $$
declare
  made bigint;
  way int := route_of(in_queue, of_type);
  at timestamptz := clock_timestamp();
begin
  insert into tasks (route_id, queue, type, details, run_at, max_attempts, retry_base_ms, retry_max_ms, retry_policy,
    batch_id, source, created, last_updated)
  select way, in_queue, of_type, with_details, at, coalesce(q.max_attempts, 5), queue_retry_base_ms(q, 1000),
    coalesce(q.retry_max_ms, 3600000), q.retry_policy, in_batch, by, at, at
  from (select) one left join queues q on q.name = in_queue
  returning id into made;
  -- The transaction's time is the same for all that it makes, and equal notifications are sent once.
  perform pg_notify('reeve_wake', format('0 %s 0 %s', way, (extract(epoch from now()) * 1000000)::bigint));
  return made;
end $$;

-- What is told of a task's end; times as the contract's JSON has them.
create function batch_task_event(b batches, task jsonb) returns text language sql stable as $$
  select json_strip_nulls(json_build_object('event', 'task_end', 'batch_id', b.id, 'batch', b.name, 'queue', b.queue, 'task',
    json_build_object('id', task -> 'id', 'type', task -> 'type', 'status', task -> 'status', 'attempt', task -> 'attempt',
      'last_error', coalesce(left(task ->> 'error', 1000), ''), 'error_code', coalesce(task ->> 'error_code', ''),
      'remark', coalesce(task ->> 'remark', ''), 'worker', coalesce(task ->> 'worker', ''),
      'started', time_text((task ->> 'started_at')::timestamptz), 'finished', time_text((task ->> 'ended_at')::timestamptz))))::text
$$;

-- Counts tasks of batches that have ended: called by whatever ends tasks, in its own statement, with those that are of a
-- batch. Takes the batches' rows in id order. Answers the callbacks to be made; tasks that the callers asked for
-- are submitted here. The entry and the exit task count for themselves; a task that was run again when its batch was over
-- (its exit task had begun, or it had ended) was not counted back, and is not counted now.
create function batch_tasks_ended(ended jsonb)
returns table (batch_id bigint, task_id bigint, event text, url text, secret text, payload text)
language plpgsql strict as $$
begin
  perform from batches b
  where b.id in (select (e ->> 'batch_id')::bigint from jsonb_array_elements(ended) e)
  order by b.id for no key update;
  update batches b set
    pending = b.pending - n.counted, success = b.success + n.success, failed = b.failed + n.counted - n.success,
    entry_status = coalesce(n.entry, b.entry_status), exit_status = coalesce(n.exit, b.exit_status)
  from (
    select b2.id, count(*) filter (where c.counts) as counted,
      count(*) filter (where c.counts and e.status = 'completed') as success,
      max(e.status) filter (where e.id = b2.entry_id) as entry, max(e.status) filter (where e.id = b2.exit_id) as exit
    from jsonb_to_recordset(ended) as e(id bigint, batch_id bigint, status text)
    join batches b2 on b2.id = e.batch_id
    cross join lateral (select b2.phase <> 'exit' and e.id is distinct from b2.entry_id
      and e.id is distinct from b2.exit_id as counts) c
    where b2.phase <> 'ended'
    group by b2.id) n
  where b.id = n.id;
  perform submit_internal(b.queue, b.callback_type, batch_task_event(b, e), null, 'callback of batch ' || b.id)
  from jsonb_array_elements(ended) e join batches b on b.id = (e ->> 'batch_id')::bigint
  where b.callback_type is not null and b.phase not in ('exit', 'ended')
    and (e ->> 'id')::bigint is distinct from b.entry_id;
  return query
    select b.id, (e ->> 'id')::bigint, 'task_end', b.callback_url, b.callback_secret, batch_task_event(b, e)
    from jsonb_array_elements(ended) e join batches b on b.id = (e ->> 'batch_id')::bigint
    where b.callback_tasks and b.callback_url is not null and b.phase not in ('exit', 'ended')
      and (e ->> 'id')::bigint is distinct from b.entry_id;
end $$;

-- How many days the history keeps a task that ended so.
create function keep_days(of_queue text, ended_as text, otherwise int) returns int language sql stable as $$
  select coalesce((select case ended_as when 'completed' then keep_completed_days when 'dead' then keep_dead_days
    else keep_cancelled_days end from queues where name = of_queue), otherwise)
$$;

-- The longest that any queue keeps anything, in days.
create function longest_keep(otherwise int) returns int language sql stable as $$
  select greatest(otherwise, max(greatest(keep_completed_days, keep_dead_days, keep_cancelled_days))) from queues
$$;

-- Files that hold what a partition of the history held, and so allow it to be dropped. dropped: since when it is.
create table archives (
  id bigint generated always as identity primary key,
  partition text not null,
  file text not null,
  tasks bigint not null,
  manager text not null,
  at timestamptz not null default clock_timestamp(),
  dropped timestamptz);
create index archives_partition on archives (partition) where dropped is null;

-- Whether it writes such files: while such a manager lives, no partition goes without one.
alter table managers add column archives boolean not null default false;

-- The partitions whose day is over, and whether they are archived. What the default partition has of such days is given
-- partitions first, a day at a time, so that there is one way for all.
create function history_over(today date) returns table (partition text, archived boolean) language plpgsql as $$
declare
  day date := (select min(keep_until) from task_history_default where keep_until < today);
begin
  if day is not null then
    perform make_history_partitions(day, 1);
  end if;
  return query
    select c.relname::text, exists (select from archives a where a.partition = c.relname and a.dropped is null)
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'reeve.task_history'::regclass and c.relname ~ '^task_history_[0-9]{8}$'
      and to_date(right(c.relname, 8), 'YYYYMMDD') < today
    order by c.relname;
end $$;

-- Forgets the attempts and events of the next `most` tasks of a partition, by their ids. Returns the last id, null at the end.
create function history_forget(partition text, after bigint, most int) returns bigint language plpgsql as $$
declare
  ids bigint[];
begin
  execute format('select array_agg(task_id order by task_id) from (
    select task_id from reeve.%I where task_id > $1 order by task_id limit $2) p', partition) into ids using after, most;
  delete from task_attempts where task_id = any(ids);
  delete from task_events where task_id = any(ids);
  return ids[array_upper(ids, 1)];
end $$;

-- The next tasks of a partition as JSON, each with its attempts and events: at most 500, and about so many bytes.
create function history_page(partition text, after bigint, bytes bigint) returns table (id bigint, line text)
language plpgsql as $$
begin
  return query execute format('select p.task_id, (to_jsonb(p) - ''before'' || jsonb_build_object(
      ''attempts'', (select coalesce(jsonb_agg(to_jsonb(a) - ''task_id'' order by a.token), ''[]'')
        from reeve.task_attempts a where a.task_id = p.task_id),
      ''events'', (select coalesce(jsonb_agg(to_jsonb(e) - ''task_id'' order by e.id), ''[]'')
        from reeve.task_events e where e.task_id = p.task_id)))::text
    from (select h.*, sum(length(details) + coalesce(length(result), 0)) over (order by task_id
        rows between unbounded preceding and 1 preceding) as before
      from (select * from reeve.%I where task_id > $1 order by task_id limit 500) h) p
    where before is null or before < $2 order by p.task_id', partition) using after, bytes;
end $$;

-- Drops a partition.
drop function drop_history_partition(date);
create function drop_history_partition(partition text) returns void language plpgsql as $$
begin
  execute format('drop table if exists reeve.%I', partition);
  update archives a set dropped = clock_timestamp() where a.partition = $1 and a.dropped is null;
end $$;

-- The views again, with what is new.
drop view all_tasks;
create view all_tasks as
  select id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, details,
    null::text as result, last_error, error_code, worker_id, last_updated, created,
    case when status = 'executing' then coalesce(first_started, last_updated) else first_started end as first_started,
    case when status = 'executing' then last_updated else started end as started,
    null::timestamptz as finished, expiry, cancel_requested_at is not null as cancel_requested, lane, batch_id, route_id,
    remark, stack, version
  from tasks
  union all
  select task_id, queue, type, status, priority, run_at, attempt, max_attempts, timeout_ms, key, source, details,
    result, last_error, error_code, worker_id, last_updated, created, first_started, started,
    last_updated, null, false, lane, batch_id, route_id, remark, stack, version
  from task_history;

-- Locks the tasks of keys, live or ended, in id order, then the keys: the order of whatever ends a task, or starts an ended one
-- again. One that came back to life while its row was waited for could only be locked out of turn; then all locks are let go,
-- with the block's savepoint, and taken again.
create function lock_keyed(in_queues text[], wanted text[]) returns void language plpgsql as $$
declare
  owners bigint[];
  locked bigint[];
begin
  loop
    begin
      owners := array(select k.task_id from unnest(in_queues, wanted) u(queue, key)
        join keys k on k.queue = u.queue and k.key = u.key);
      locked := array(select id from tasks where id = any(owners) order by id for no key update);
      perform from task_history where task_id = any(owners) order by task_id for update;
      perform from keys k join unnest(in_queues, wanted) u(queue, key) on k.queue = u.queue and k.key = u.key
        order by k.queue, k.key for update of k;
      if not exists (select from unnest(in_queues, wanted) u(queue, key)
        join keys k on k.queue = u.queue and k.key = u.key
        join tasks t on t.id = k.task_id where t.id <> all(locked)) then
        return;
      end if;
      raise exception using errcode = 'RV000';
    exception when sqlstate 'RV000' then
      null;
    end;
  end loop;
end $$;

-- Locks batches in id order: those given, and those of keys' tasks, which are locked.
create function lock_batches(ids bigint[], in_queues text[], wanted text[]) returns void language plpgsql as $$
begin
  perform from batches where id = any(ids || array(
    select coalesce(t.batch_id, h.batch_id)
    from unnest(in_queues, wanted) u(queue, key) join keys k on k.queue = u.queue and k.key = u.key
    left join tasks t on t.id = k.task_id left join task_history h on h.task_id = k.task_id))
  order by id for no key update;
end $$;

-- What is told of a batch, as `reeve --json` writes it: {"event", "batch": {…}} and, of its end, "tasks", the first 10,000 and
-- at most a MiB of them; with fewer than there are, "truncated" is true. Null: the batch is not there any more.
create function batch_report(of_batch bigint, of_event text) returns text language sql stable as $$
  with lines as materialized (
    select t.id, row_number() over (order by t.id) as n, json_build_object('id', t.id, 'type', t.type, 'status', t.status,
      'attempt', t.attempt, 'max_attempts', t.max_attempts, 'key', coalesce(t.key, ''),
      'last_error', coalesce(left(t.last_error, 1000), ''), 'error_code', coalesce(t.error_code, ''),
      'remark', coalesce(t.remark, ''), 'worker', coalesce(w.name, ''), 'created', time_text(t.created),
      'first_started', time_text(t.first_started), 'started', time_text(t.started), 'finished', time_text(t.finished)) as line
    from (select id, type, status, attempt, max_attempts, key, last_error, error_code, remark, worker_id, created,
        first_started, started, finished
      from all_tasks
      where batch_id = of_batch and of_event = 'batch_end' and id not in (
        select unnest(array[coalesce(entry_id, 0), coalesce(exit_id, 0)]) from batches where id = of_batch)
      order by id limit 10001) t
    left join workers w on w.id = t.worker_id),
   fitting as (
    select id, line from (
      select id, n, line, sum(octet_length(line::text) + 2) over (order by id) as bytes from lines) l
    where n <= 10000 and bytes <= 1048576)
  select json_strip_nulls(json_build_object('event', of_event,
    'batch', json_build_object('id', b.id, 'name', b.name, 'queue', b.queue, 'implicit', b.implicit, 'state', b.state,
      'phase', b.phase, 'submitted', b.submitted, 'pending', b.pending, 'success', b.success, 'failed', b.failed,
      'created', time_text(b.created), 'started', time_text(b.started_at), 'closed', time_text(b.closed_at),
      'ended', time_text(b.ended_at), 'duration_ms', b.duration_ms, 'remaining_ms', b.remaining_ms,
      'entry_id', coalesce(b.entry_id, 0), 'entry_status', coalesce(b.entry_status, ''),
      'exit_id', coalesce(b.exit_id, 0), 'exit_status', coalesce(b.exit_status, ''), 'source', b.source,
      'callbacks_waiting', b.callbacks_waiting, 'callbacks_given_up', b.callbacks_given_up),
    'tasks', case when of_event = 'batch_end' then (select coalesce(json_agg(line order by id), '[]') from fitting) end,
    'truncated', case when (select count(*) from lines) > (select count(*) from fitting) then true end))::text
  from batches_shown b where b.id = of_batch
$$;

-- That a batch is closed, and since when, and why.
create function batch_closed(b batches) returns text language sql stable as $$
  select format('batch %s was closed at %s%s', b.id, to_char(b.closed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    case when b.entry_status <> 'completed' then format(': its entry task %s ended %s', b.entry_id, b.entry_status)
      when b.implicit then ' when all its tasks had ended' else '' end)
$$;

-- Tells of a batch's begin or end to whom its opener named, by HTTP or by a task.
create function batch_tell(b batches, of_event text) returns void language plpgsql as $$
begin
  if b.callback_url is not null then
    insert into callbacks (batch_id, event, url, secret) values (b.id, of_event, b.callback_url, b.callback_secret);
  end if;
  if b.callback_type is not null then
    perform submit_internal(b.queue, b.callback_type, batch_report(b.id, of_event), null,
      'callback of batch ' || b.id);
  end if;
end $$;

-- Submits a batch's entry or exit task.
create function batch_submit(b batches, which text, of_type text) returns bigint language sql as $$
  select submit_internal(b.queue, of_type, jsonb_build_object('event', 'batch_' || which, 'batch_id', b.id,
    'batch', b.name, 'queue', b.queue, 'submitted', b.submitted, 'success', b.success, 'failed', b.failed)::text, b.id,
    format('%s of batch %s', which, b.id))
$$;

-- Begins batches that have just got their first task. Whoever submits that does it, in the same transaction.
create function batches_begin(ids bigint[]) returns void language plpgsql as $$
declare
  b batches;
begin
  for b in select * from batches where id = any(ids) and phase = 'new' and submitted > 0 order by id for no key update loop
    if b.entry_type is not null then
      b.entry_id := batch_submit(b, 'entry', b.entry_type);
    end if;
    update batches set phase = case when b.entry_id is null then 'running' else 'entry' end, entry_id = b.entry_id,
      started_at = clock_timestamp()
    where id = b.id returning * into b;
    perform batch_tell(b, 'batch_begin');
  end loop;
end $$;

-- Takes a batch as far as it goes by now, except that its held tasks are let go (or ended) by others. Its queue's row is
-- locked, then its own, so that each step is made once, whoever comes to it. Answers the steps that were made.
create function batch_step(of_batch bigint) returns table (steps text, name text, queue text, submitted bigint,
  success bigint, failed bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  b batches;
  q queues;
  made text[] := '{}';
begin
  select * into q from queues where name = (select queue from batches where id = of_batch) for no key update;
  select * into b from batches where id = of_batch for no key update;
  if b.phase = 'new' and b.submitted > 0 then
    perform batches_begin(array[b.id]);
    made := made || 'begun'::text;
    select * into b from batches where id = of_batch;
  end if;
  -- An implicit batch has drained; an explicit one takes no more when its queue is stopped, or its entry task failed.
  if b.closed_at is null and (b.implicit and b.pending = 0 and b.phase in ('new', 'running')
    or q.state in ('stopping', 'stopped') and b.created <= q.stopped_at
    or b.phase = 'entry' and b.entry_status <> 'completed') then
    update batches set closed_at = clock_timestamp(), stopped = coalesce(q.state in ('stopping', 'stopped'), false)
    where id = of_batch returning * into b;
    made := made || 'closed'::text;
  end if;
  if b.closed_at is not null and q.batch_id = b.id then
    update queues set batch_id = null where name = q.name; -- no setting: nobody has to be told
  end if;
  if b.phase = 'entry' and b.entry_status is not null then
    update batches set phase = 'releasing' where id = of_batch returning * into b;
    made := made || 'releasing'::text;
  end if;
  if b.phase = 'releasing' and not exists (select from tasks where batch_id = of_batch and held_run_at is not null) then
    update batches set phase = 'running' where id = of_batch returning * into b;
    made := made || 'running'::text;
  end if;
  -- What never had a task has neither begun nor does it end with anything to be told. A stopped queue runs no exit task.
  if b.phase in ('new', 'running') and b.closed_at is not null and b.pending = 0 then
    if b.submitted > 0 and b.exit_type is not null and not b.stopped and coalesce(q.state, '') not in ('stopping', 'stopped')
    then
      update batches set phase = 'exit', exit_id = batch_submit(b, 'exit', b.exit_type) where id = of_batch
      returning * into b;
      made := made || 'exit'::text;
    else
      b.exit_status := 'none';
    end if;
  end if;
  if b.exit_status is not null and b.phase <> 'ended' then
    update batches set phase = 'ended', ended_at = clock_timestamp() where id = of_batch returning * into b;
    if b.submitted > 0 then
      perform batch_tell(b, 'batch_end');
    end if;
    made := made || 'ended'::text;
  end if;
  return query select array_to_string(made, ' '), b.name, b.queue, b.submitted, b.success, b.failed;
end $$;

-- Takes a request id for a call that makes or changes the batch `of_batch`. Null: it is taken now; else which batch it
-- was taken for before. That is told with a commit, so that synchronous standbys have what it tells of.
create function batch_request(request uuid, which text, of_batch bigint) returns bigint language plpgsql as $$
declare
  r requests;
begin
  insert into requests (id, kind, task_ids) values (request, which, array[of_batch]) on conflict do nothing;
  if found then
    return null;
  end if;
  perform pg_logical_emit_message(true, 'reeve', 'fence');
  select * into r from requests where id = request;
  if not found then
    raise exception using errcode = '40001', message = 'a request was forgotten meanwhile';
  elsif r.kind <> which then
    raise exception using errcode = 'RV400', message = 'the request id was used for another call';
  end if;
  return r.task_ids[1];
end $$;

-- Opens a batch; what is null is as its queue says. Answers its id.
create function batch_open(request uuid, with_name text, in_queue text, url text, secret text, each_task boolean,
  with_type text, with_entry text, with_exit text, by text) returns bigint language plpgsql as $$
declare
  made bigint := nextval(pg_get_serial_sequence('batches', 'id'));
  before bigint := batch_request(request, 'batch_open', made);
begin
  if before is not null then
    return before;
  end if;
  insert into batches (id, name, queue, implicit, callback_url, callback_secret, callback_tasks, callback_type, entry_type,
    exit_type, source) overriding system value
  select made, with_name, in_queue, false, coalesce(url, q.callback_url),
    case when url is null then coalesce(secret, q.callback_secret) else secret end,
    each_task or url is null and coalesce(q.callback_tasks, false), coalesce(with_type, q.callback_type),
    coalesce(with_entry, q.entry_type), coalesce(with_exit, q.exit_type), by
  from (select) one left join queues q on q.name = in_queue;
  return made;
end $$;

-- Closes a batch: it takes no more tasks.
create function batch_close(request uuid, of_batch bigint) returns void language plpgsql as $$
declare
  before bigint := batch_request(request, 'batch_close', of_batch);
  b batches;
begin
  if before = of_batch then
    return;
  elsif before is not null then
    raise exception using errcode = 'RV400', message = 'the request id was used for another call';
  end if;
  select * into b from batches where id = of_batch for no key update;
  if not found then
    raise exception using errcode = 'RV404', message = format('there is no batch %s', of_batch);
  elsif b.closed_at is not null then
    raise exception using errcode = 'RV409', message = batch_closed(b);
  end if;
  update batches set closed_at = clock_timestamp() where id = of_batch;
end $$;

-- A submit whose request id has been committed meanwhile begins again, and finds what it was answered.
create function unless_submitted(request uuid) returns void language plpgsql as $$
begin
  if exists (select from requests where id = request) then
    raise exception using errcode = '40001', message = 'the call was carried out meanwhile';
  end if;
end $$;

-- What a submit has to know before it makes tasks of batches, or of queues that are more than a name: element by element the
-- batch each task is in, whether the task is held until that has begun, and whether it begins with it. Opens implicit
-- batches, starts stopped queues. The rows stay locked until the tasks are made: queues by name, then batches by id; before
-- them those of tasks that are submitted with versions, whose keys are given. A copy of the call that was committed while
-- they were waited for is what counts, whatever has become of queue and batch since.
create function submit_batches(request uuid, in_queues text[], in_batches bigint[], versioned text[])
returns table (n bigint, batch_id bigint, held boolean, begins boolean)
language plpgsql as $$
declare
  q queues;
  b batches;
  wrong record;
begin
  perform lock_keyed(in_queues, versioned);
  perform from queues where name = any(in_queues) order by name for no key update;
  perform lock_batches(in_batches || array(select s.batch_id from queues s where s.name = any(in_queues)), in_queues, versioned);
  for q in select * from queues where name = any(in_queues) order by name loop
    if q.state in ('stopping', 'stopped') then
      perform unless_submitted(request);
    end if;
    if q.state = 'stopping' then
      raise exception using errcode = 'RV503', message = format('queue "%s" is being stopped; try again', q.name);
    end if;
    if q.state = 'stopped' then
      q.state := case when q.autostart then 'running' else 'held' end;
      update queues set state = q.state, state_since = clock_timestamp(), updated = clock_timestamp() where name = q.name;
      perform pg_notify('reeve_wake', 'queues');
    end if;
    if q.batches and exists (select from unnest(in_queues, in_batches) u(name, batch) where u.name = q.name and u.batch is null)
    then
      select * into b from batches where id = q.batch_id and closed_at is null;
      if not found then
        insert into batches (name, queue, implicit, callback_url, callback_secret, callback_tasks, callback_type, entry_type,
          exit_type)
        values (q.name, q.name, true, q.callback_url, q.callback_secret, q.callback_tasks, q.callback_type, q.entry_type,
          q.exit_type)
        returning * into b;
        update queues set batch_id = b.id, is_held = is_held or not autostart and state = 'paused'
        where name = q.name; -- no setting: nobody has to be told
        if not q.autostart and q.state = 'running' then
          update queues set state = 'held', state_since = clock_timestamp(), updated = clock_timestamp() where name = q.name;
          perform pg_notify('reeve_wake', 'queues');
        end if;
      end if;
    end if;
  end loop;
  select u.batch, u.name, x as found into wrong
  from unnest(in_queues, in_batches) u(name, batch) left join batches x on x.id = u.batch
  where u.batch is not null and (x.id is null or x.queue <> u.name or x.closed_at is not null) limit 1;
  if found then
    perform unless_submitted(request);
    b := wrong.found;
    if b.id is null then
      raise exception using errcode = 'RV404', message = format('there is no batch %s', wrong.batch);
    elsif b.queue <> wrong.name then
      raise exception using errcode = 'RV400',
        message = format('batch %s is of queue "%s", the task of "%s"', b.id, b.queue, wrong.name);
    end if;
    raise exception using errcode = 'RV409', message = batch_closed(b);
  end if;
  return query
    select u.n, x.id, x.id is not null and x.entry_type is not null and x.phase in ('new', 'entry'),
      coalesce(x.phase = 'new', false)
    from unnest(in_queues, in_batches) with ordinality u(name, batch, n)
    left join queues s on s.name = u.name and s.batches
    left join batches x on x.id = coalesce(u.batch, s.batch_id)
    order by u.n;
end $$;

-- One of submit_newer's: its key and task are locked. It stays in its batch; if it has none, or that is over, it comes into
-- the submit's, which is locked, too.
create function submit_newer_one(spec jsonb) returns table (id bigint, restarted boolean, route_id int, priority int,
  version timestamptz, run_at timestamptz)
language plpgsql as $$
#variable_conflict use_column
declare
  k keys;
  t tasks;
  h task_history;
  b batches;
  held boolean;
  newer bigint := (spec ->> 'version')::bigint;
  moment timestamptz := clock_timestamp();
  due timestamptz := greatest(to_timestamp((spec ->> 'run_at_us')::float8 / 1000000), moment) + interval '1ms' * (spec ->> 'delay_ms')::bigint;
begin
  select * into k from keys where queue = spec ->> 'queue' and key = spec ->> 'key';
  if not found then
    raise exception using errcode = '40001', message = 'a key expired meanwhile';
  end if;
  if k.version >= newer then
    return query select k.task_id, false, null::int, null::int, null::timestamptz, null::timestamptz;
    return;
  end if;
  update keys set version = newer,
    expires_at = greatest(moment + interval '1 year', moment + interval '1ms' * (spec ->> 'key_ttl_ms')::bigint)
  where queue = k.queue and key = k.key;
  spec := spec || jsonb_build_object('run_at', due);
  select * into t from tasks where id = k.task_id for no key update;
  if not found then
    delete from task_history where task_id = k.task_id returning * into h;
  end if;
  update batches x set pending = x.pending + 1, success = x.success - (h.status = 'completed')::int,
    failed = x.failed - (h.status <> 'completed')::int
  where x.id = h.batch_id and x.phase not in ('exit', 'ended') and h.task_id is distinct from x.entry_id
  returning * into b;
  if not found then
    select * into b from batches x where x.id = t.batch_id and x.phase not in ('exit', 'ended');
  end if;
  if not found then
    update batches x set submitted = x.submitted + 1, pending = x.pending + 1
    where x.id = (spec ->> 'batch_id')::bigint returning * into b;
  end if;
  held := b.entry_type is not null and b.phase in ('new', 'entry');
  if t.status = 'executing' then
    update tasks set restart = spec, cancel_requested_at = null, stop_code = null, batch_id = b.id where id = t.id;
    insert into task_events (task_id, version, event, actor, note)
      values (t.id, t.last_updated, 'newer_version', spec ->> 'source', format('version %s; runs again after this attempt', newer));
    return query select t.id, true, null::int, null::int, null::timestamptz, null::timestamptz;
    return;
  end if;
  if t.id is null then
    if h.token is not null then
      insert into task_attempts (task_id, token, attempt, worker_id, assignment_id, outcome, status, by_report, error,
        error_code, run_at, last_updated, result, remark, stack)
      values (h.task_id, h.token, h.attempt, h.worker_id, h.assignment_id, h.status, h.status, h.by_report, h.last_error,
        h.error_code, null, h.last_updated, h.result, h.remark, h.stack);
    elsif h.task_id is not null then
      insert into task_events (task_id, version, event) values (h.task_id, h.last_updated, h.status);
    end if;
    insert into tasks (id, route_id, queue, type, details, status, run_at, priority, max_attempts, timeout_ms, retry_base_ms,
      retry_max_ms, key, source, created, last_updated, first_started, started, worker_id, remark) overriding system value
    select coalesce(h.task_id, nextval('tasks_id_seq')), (spec ->> 'route_id')::int, spec ->> 'queue', spec ->> 'type', '',
      'queued', due, 0, 1, 1, 1, 1, spec ->> 'key', '', coalesce(h.created, moment),
      greatest(moment, h.last_updated + interval '1us'), h.first_started, h.started, h.worker_id, h.remark
    returning * into t;
    if t.id <> k.task_id then
      update keys set task_id = t.id where queue = k.queue and key = k.key;
    end if;
  end if;
  update tasks u set route_id = (spec ->> 'route_id')::int, type = spec ->> 'type', details = spec ->> 'details',
    priority = (spec ->> 'priority')::int, status = 'queued', attempt = 0, returns = 0,
    run_at = case when held then 'infinity' else due end, held_run_at = case when held then due end, batch_id = b.id,
    max_attempts = (spec ->> 'max_attempts')::int, timeout_ms = (spec ->> 'timeout_ms')::bigint,
    retry_base_ms = (spec ->> 'retry_base_ms')::bigint, retry_max_ms = (spec ->> 'retry_max_ms')::bigint,
    retry_policy = case when jsonb_typeof(spec -> 'retry_policy') = 'object' then spec -> 'retry_policy' end,
    source = spec ->> 'source', version = newer, last_error = null, error_code = null, stack = null, restart = null,
    cancel_requested_at = null, stop_code = null,
    last_updated = greatest(clock_timestamp(), u.last_updated + interval '1us')
  where u.id = t.id returning * into t;
  insert into task_events (task_id, version, event, actor, note)
    values (t.id, t.last_updated, 'restarted', spec ->> 'source', format('version %s', newer));
  return query select t.id, true, t.route_id, t.priority, t.last_updated, t.run_at;
end $$;

-- Submits with versions met their keys; `specs` are rows of tasks as JSON. If a version is newer than the key's, the key's task
-- is run again as its spec describes it: at once if it waits or has ended, after its end if it executes. Answers for each its
-- place, the task's id, whether it is run again, and if it waits now, its route, priority, version and due time.
create function submit_newer(specs jsonb[]) returns table (n bigint, id bigint, restarted boolean, route_id int, priority int,
  version timestamptz, run_at timestamptz)
language plpgsql as $$
declare
  spec jsonb;
  in_queues text[];
  wanted text[];
begin
  -- A key's version only grows: what is not newer now needs no lock.
  select array_agg(k.queue), array_agg(k.key) into in_queues, wanted
  from unnest(specs) s join keys k on k.queue = s ->> 'queue' and k.key = s ->> 'key'
  where k.version is null or k.version < (s ->> 'version')::bigint;
  perform lock_keyed(in_queues, wanted);
  perform lock_batches('{}', in_queues, wanted);
  for n, spec in select u.place, u.s from unnest(specs) with ordinality u(s, place)
    order by u.s ->> 'queue', u.s ->> 'key', u.place
  loop
    return query select n, r.* from submit_newer_one(spec) r;
  end loop;
end $$;

-- Remembers that something was done with a queue, and tells the managers.
create function queue_told(of_queue text, what text, by text, more text default '') returns void language plpgsql as $$
begin
  insert into queue_events (queue, event, actor, note) values (of_queue, what, by, more);
  perform pg_notify('reeve_wake', 'queues');
end $$;

-- Whether somebody has set something of a queue, or a task was ever in it.
create function queue_known(wanted text) returns boolean language sql stable as $$
  select exists (select from queues where name = wanted) or exists (select from routes where queue = wanted)
$$;

-- Takes a request id for a change of a queue. Answers the newest task's id at the first time the call came, and whether it
-- has come before.
create function queue_request(request uuid, out newest bigint, out repeated boolean) language plpgsql as $$
declare
  earlier requests;
begin
  select case when is_called then last_value else 0 end into newest from tasks_id_seq;
  insert into requests (id, kind, task_ids) values (request, 'queue', array[newest]) on conflict do nothing;
  repeated := not found;
  if repeated then
    select * into earlier from requests where id = request;
    if earlier.kind <> 'queue' then
      raise exception using errcode = 'RV400', message = 'the request id was used for another call';
    end if;
    newest := earlier.task_ids[1];
  end if;
end $$;

-- Changes a queue's settings: `change` has the new values of columns. What needs batches turns them on.
create function queue_set(request uuid, of_queue text, change jsonb, by text) returns queues language plpgsql as $$
declare
  q queues;
  needs text;
begin
  if (select repeated from queue_request(request)) then
    select * into q from queues where name = of_queue;
    return q;
  end if;
  insert into queues (name) values (of_queue) on conflict do nothing;
  select * into q from queues where name = of_queue for no key update;
  q := jsonb_populate_record(q, change);
  if q.callback_url is null then
    if change ->> 'callback_secret' is not null or (change ->> 'callback_tasks')::boolean then
      raise exception using errcode = 'RV400', message = format('settings.%s is given, and the queue has no callback_url',
        case when change ->> 'callback_secret' is not null then 'callback_secret' else 'callback_tasks' end);
    end if;
    q.callback_secret := null;
    q.callback_tasks := false;
  end if;
  needs := case when not q.autostart then 'autostart is off' when q.callback_url is not null then 'callback_url is set'
    when q.callback_type is not null then 'callback_type is set' when q.entry_type is not null then 'entry_type is set'
    when q.exit_type is not null then 'exit_type is set' end;
  if needs is not null and not q.batches then
    if change ? 'batches' then
      raise exception using errcode = 'RV400', message = format('settings.batches is off, and %s, which is about batches', needs);
    end if;
    q.batches := true;
  end if;
  update queues set batches = q.batches, autostart = q.autostart, is_verbose = q.is_verbose, max_attempts = q.max_attempts,
    retry_base_ms = q.retry_base_ms, retry_max_ms = q.retry_max_ms, retry_policy = q.retry_policy, resting_ms = q.resting_ms,
    waiting_ms = q.waiting_ms, callback_url = q.callback_url, callback_secret = q.callback_secret,
    callback_tasks = q.callback_tasks, callback_type = q.callback_type, entry_type = q.entry_type, exit_type = q.exit_type,
    keep_completed_days = q.keep_completed_days, keep_dead_days = q.keep_dead_days,
    keep_cancelled_days = q.keep_cancelled_days, updated = clock_timestamp()
  where name = of_queue returning * into q;
  perform queue_told(of_queue, 'queue_set', by, (select string_agg(key, ', ' order by key) from jsonb_object_keys(change) key));
  return q;
end $$;

-- Starts, stops, pauses, resumes, purges or deletes a queue, as far as it is done at once: what a stop or a purge ends, it
-- ends by and by. Answers its state and the newest task's id when the call first came.
create function queue_control(request uuid, of_queue text, action text, by text) returns table (state text, newest bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  call record := queue_request(request);
  q queues;
  becomes text;
  live bigint;
begin
  if not call.repeated and action in ('pause', 'stop') and queue_known(of_queue) then
    insert into queues (name) values (of_queue) on conflict do nothing; -- a row to lock: of two calls one comes first
  end if;
  select * into q from queues where name = of_queue for no key update;
  if call.repeated then
    return query select coalesce(q.state, 'running'), call.newest;
    return;
  end if;
  if q.name is null and not queue_known(of_queue) then
    raise exception using errcode = 'RV404',
      message = format('there is no queue "%s": nobody has set anything of it, and no task was ever in it', of_queue);
  end if;
  becomes := coalesce(q.state, 'running');
  if becomes = 'stopping' and action in ('start', 'pause', 'resume') then
    raise exception using errcode = 'RV409', message = format('queue "%s" is being stopped; try again', of_queue);
  elsif becomes = 'stopped' and action in ('pause', 'resume') then
    raise exception using errcode = 'RV409', message = format('queue "%s" is stopped; start it, or submit a task', of_queue);
  elsif becomes = 'held' and action = 'resume' then
    raise exception using errcode = 'RV409', message = format('queue "%s" is not paused: it waits to be started', of_queue);
  end if;
  case action
  when 'start' then
    becomes := 'running';
  when 'pause' then
    becomes := 'paused';
  when 'resume' then
    becomes := case when becomes = 'paused' and q.is_held then 'held' else 'running' end;
  when 'stop' then
    becomes := case when becomes = 'stopped' then 'stopped' else 'stopping' end;
  when 'purge' then
    perform queue_told(of_queue, 'queue_purged', by);
  when 'delete' then
    select count(*) into live from tasks
    where route_id = any(array(select id from routes where queue = of_queue)) and lane is null;
    if live > 0 then
      raise exception using errcode = 'RV409', message = format('queue "%s" has %s live task%s; purge or stop it first', of_queue,
        live, case when live > 1 then 's' else '' end);
    end if;
    becomes := 'running';
    if q.name is not null then
      update batches b set closed_at = clock_timestamp()
      where b.queue = of_queue and b.implicit and b.closed_at is null and b.phase <> 'ended';
      delete from queues where name = of_queue;
      perform queue_told(of_queue, 'queue_deleted', by);
    end if;
    return query select becomes, call.newest;
    return;
  end case;
  if becomes <> coalesce(q.state, 'running') then
    update queues set state = becomes, state_since = clock_timestamp(), updated = clock_timestamp(),
      is_held = becomes = 'paused' and state = 'held',
      stopped_at = case when becomes = 'stopping' then clock_timestamp() else stopped_at end,
      stopped_by = case when becomes = 'stopping' then by else stopped_by end,
      stopped_id = case when becomes = 'stopping' then call.newest else stopped_id end
    where name = of_queue;
    if becomes = 'stopping' then
      update batches b set closed_at = coalesce(closed_at, clock_timestamp()), stopped = true
      where b.id = any(array(select id from batches where queue = of_queue and phase <> 'ended'
        order by id for no key update));
    end if;
    perform queue_told(of_queue, case action when 'start' then 'queue_started' when 'pause' then 'queue_paused'
      when 'resume' then 'queue_resumed' else 'queue_stop_ordered' end, by);
  end if;
  return query select becomes, call.newest;
end $$;

-- Goes on with queues that are being stopped: one of which nothing made before the stop is left is stopped; one that is
-- stopped and has got a task since, by a manager that had not heard of it, starts again, as with any submit. Callback tasks
-- wait until it is started. Answers the queues that have tasks to be ended, up to which id, and who wants it. It is asked
-- again and again while any queue is stopped, so that tasks are found by tasks_ready, however many other queues have: that
-- is what "lane is null" and "id + 0" are for.
create function queue_stops() returns table (name text, up_to bigint, by text) language plpgsql as $$
#variable_conflict use_column
declare
  q queues;
  ways int[];
begin
  for q in select * from queues where state in ('stopping', 'stopped') order by name loop
    ways := array(select id from routes where queue = q.name);
    if exists (select from tasks t where t.route_id = any(ways) and t.lane is null and t.id + 0 <= q.stopped_id
      and (q.state = 'stopping' and (t.status <> 'executing' or t.cancel_requested_at is null)
        or q.state = 'stopped' and t.last_updated <= q.stopped_at)) then
      return query select q.name, q.stopped_id, q.stopped_by;
    elsif q.state = 'stopping' then
      update queues set state = 'stopped', state_since = clock_timestamp(), updated = clock_timestamp()
      where name = q.name and state = 'stopping' and not exists (
        select from tasks t where t.route_id = any(ways) and t.lane is null and t.id + 0 <= q.stopped_id);
      if found then
        perform queue_told(q.name, 'queue_stopped', q.stopped_by);
      end if;
    elsif exists (select from tasks t
      where t.route_id = any(ways) and t.lane is null and t.source not like 'callback of batch %') then
      update queues set state = case when autostart then 'running' else 'held' end, state_since = clock_timestamp(),
        updated = clock_timestamp()
      where name = q.name and state = 'stopped';
      if found then
        perform queue_told(q.name, 'queue_started', '', 'a task was submitted');
      end if;
    end if;
  end loop;
end $$;

-- How a queue stands, as it is shown: see docs/queues.md. Of the tasks that live, how many wait and how many run.
create function queue_shown(wanted text) returns table (state text, since timestamptz, waiting bigint, running bigint,
  batch_id bigint) language sql stable as $$
  with q as (select * from queues where name = wanted),
   live as (
    select count(*) filter (where t.status <> 'executing') as waiting, count(*) filter (where t.status = 'executing') as running,
      coalesce(bool_or(t.attempt > 0), false) as begun
    from tasks t where t.route_id = any(array(select id from routes where queue = wanted)) and t.lane is null),
   open as (select id, queue from batches where phase <> 'ended' offset 0),
   batch as (
    select * from batches where id = coalesce(
      (select o.id from open o join q on q.batch_id = o.id), (select max(id) from open where queue = wanted),
      (select max(id) from batches where queue = wanted))),
   one as (
    select l.*, q.state as halt, q.state_since, b.id as batch_id, b.started_at, b.ended_at, b.phase <> 'ended' as in_batch,
      coalesce(b.phase <> 'ended' and b.success + b.failed > 0, false) as some_ended
    from live l left join q on true left join batch b on true)
  select shown.state,
    case when halt <> 'running' then state_since when shown.state = 'finished' then ended_at
      when in_batch then started_at end, waiting, running, one.batch_id
  from one cross join lateral (select case
    when halt in ('paused', 'stopping', 'stopped') then halt
    when halt = 'held' then 'pending'
    when running > 0 or begun or some_ended and waiting > 0 then 'running'
    when waiting > 0 then 'pending'
    when exists (select from routes where queue = wanted) then 'finished'
    else 'created' end as state) shown
$$;
