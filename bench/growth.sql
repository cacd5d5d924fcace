-- Creates a database as it is after :n tasks, in everyday proportions: during 34 days tasks came and ended, and one in
-- twenty waits. The history keeps 30 days, so older rows are there for the maintenance jobs to remove; with three million
-- tasks they are enough for a full page of work in each. Run by bench/growth.bash on a database with the schema.
\set ON_ERROR_STOP on
set search_path = reeve;
set synchronous_commit = off;
set timezone = 'UTC';

-- Returns the time of row i of m.
create function pg_temp.moment(i bigint, m bigint) returns timestamptz language sql stable as $$
  select now() - interval '34 days' * (1 - i::float8 / m)
$$;
-- Returns a request id, a UUID of version 7.
create function pg_temp.uuid_at(at timestamptz) returns uuid language sql volatile as $$
  select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || right(replace(gen_random_uuid()::text, '-', ''), 19))::uuid
$$;

select make_history_partitions(current_date - 3, 50);
insert into routes (id, queue, type) overriding system value select n, 'q' || n % 10, 't' || n from generate_series(1, 100) n;
select setval(pg_get_serial_sequence('routes', 'id'), 100);
insert into queues (name, batches) select 'q' || n, n = 0 from generate_series(0, 9) n;
insert into managers (name, hb_at, stopped) select 'm' || n, pg_temp.moment(n, 50), n < 48 from generate_series(1, 50) n;
insert into workers (name, lost, registered, hb_at, gone_at)
  select 'w' || n % 100, true, pg_temp.moment(n, :n / 60), pg_temp.moment(n, :n / 60), pg_temp.moment(n, :n / 60) from generate_series(1, :n / 60) n;
insert into workers (name) select 'alive' || n from generate_series(1, 50) n;
insert into worker_events (worker_id, at, event)
  select n / 2, pg_temp.moment(n, :n / 30), case n % 2 when 0 then 'registered' else 'left' end from generate_series(1, :n / 30) n;

-- Ended tasks. Those of one day are in the default partition, as after an outage.
insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
    timeout_ms, retry_base_ms, retry_max_ms, worker_id, assignment_id, token, by_report, batch_id, key, source, result, last_error,
    first_started, started, created, last_updated)
  select case when x.n % 50 = 7 then current_date - 10 else (x.at at time zone 'UTC')::date + 31 end, x.n, 1 + x.n % 100, 0,
    'q' || (1 + x.n % 100) % 10, 't' || 1 + x.n % 100, format('{"user_id":%s,"pad":"%s"}', x.n, repeat('x', 67)),
    case when x.n % 200 = 0 then 'dead' else 'completed' end, x.at, 1, 5, 60000, 1000, 3600000, 1 + x.n / 60, 1 + x.n / 20,
    x.at - interval '1 s', true, case when x.n % 10 = 0 then 1 + x.n / 1000 end, case when x.n % 20 = 1 then 'k' || x.n end, 'bench',
    'done', case when x.n % 200 = 0 then 'it failed' end, x.at - interval '1 s', x.at - interval '1 s', x.at - interval '10 s', x.at
  from (select n, pg_temp.moment(n, :n) as at from generate_series(1, :n) n) x;

-- Waiting tasks: most are due, some are delayed or have failed. A thousand tasks execute.
insert into tasks (id, route_id, priority, queue, type, details, status, run_at, attempt, key, version, source, worker_id, assignment_id,
    expiry, retrying, started, created, last_updated) overriding system value
  select :n + n, 1 + n % 100, 0, 'q' || (1 + n % 100) % 10, 't' || 1 + n % 100, format('{"user_id":%s,"pad":"%s"}', n, repeat('x', 67)),
    case when n <= 1000 then 'executing' when n % 100 = 3 then 'failed' else 'queued' end,
    case when n % 50 = 5 then now() + interval '1 s' * (n % 86400) else now() - interval '1 ms' * n end, case when n <= 1000 then 1 else 0 end,
    case when n between 2001 and 2010 then 'v' || n end, case when n between 2001 and 2010 then 1 end, 'bench',
    case when n <= 1000 then :n / 60 + 1 + n % 50 end, case when n <= 1000 then :n / 20 + 1 + (n - 1) / 5 end,
    case when n <= 1000 then now() + interval '1 hour' end, case when n > 1000 and n % 100 = 3 then true end,
    case when n > 1000 and n % 100 = 3 then now() - interval '1 minute' end, now() - interval '1 minute', now() - interval '1 minute'
  from generate_series(1, 3000 + :n / 20) n;
select setval(pg_get_serial_sequence('tasks', 'id'), 2 * :n::bigint);

-- The journal: rows of twenty tasks, and two hundred open rows, of which fifty have attempts that were extended.
insert into assignments (id, worker_id, fetch_id, at, task_ids, open, closed_at) overriding system value
  select n, 1 + n / 3, n, pg_temp.moment(n, :n / 20), array(select i from generate_series(n * 20 - 19, n * 20) i), 0, pg_temp.moment(n, :n / 20)
  from generate_series(1, :n / 20) n;
insert into assignments (id, worker_id, fetch_id, next_expiry, task_ids, open) overriding system value
  select :n / 20 + n, :n / 60 + 1 + n % 50, n, now() + case when n <= 50 then interval '-1 minute' else interval '1 hour' end, array(select :n + i from generate_series(n * 5 - 4, n * 5) i), 5
  from generate_series(1, 200) n;
select setval(pg_get_serial_sequence('assignments', 'id'), :n / 20 + 200);
insert into worker_commands (worker_id, task_id, token, kind) select worker_id, id, last_updated, 'cancel' from tasks where status = 'executing' and id % 10 = 0;

-- Failed attempts and rare events, and those of ten keys whose tasks are run repeatedly.
insert into task_attempts (task_id, token, attempt, worker_id, outcome, status, by_report, error, queue, type, last_updated)
  select n, pg_temp.moment(n, :n) - interval '1 minute', 1, 1 + n / 60, 'failed', 'failed', true, 'it failed', 'q' || (1 + n % 100) % 10,
    't' || 1 + n % 100, pg_temp.moment(n, :n) - interval '50 s'
  from generate_series(20, :n, 20) n
  union all
  select :n + 2001 + n % 10, pg_temp.moment(n, :n / 100), 1, 1, 'completed', 'completed', true, null, 'q1', 't1', pg_temp.moment(n, :n / 100)
  from generate_series(1, :n / 100) n;
insert into task_events (task_id, version, at, event, actor)
  select n, pg_temp.moment(n, :n), pg_temp.moment(n, :n), 'updated', 'someone' from generate_series(50, :n, 50) n
  union all
  select :n + 2001 + n % 10, pg_temp.moment(n, :n / 100), pg_temp.moment(n, :n / 100), 'restarted', 'someone' from generate_series(1, :n / 100) n;

-- Requests of 50 hours, of which one day is kept; keys, some of them expired.
insert into requests (id, task_ids, at)
  select pg_temp.uuid_at(at), array[n], at
  from (select n, now() - interval '50 hours' * (1 - n::float8 / (:n / 5)) as at from generate_series(1, :n / 5) n) x;
insert into keys (queue, key, task_id, expires_at)
  select 'q' || (1 + n % 100) % 10, 'k' || n, n, now() + interval '1 day' * (1 - 2 * (n::float8 / :n)) from generate_series(1, :n, 20) n;
insert into keys (queue, key, task_id, version, expires_at)
  select queue, key, id, 1, now() + interval '1 year' from tasks where key is not null;

-- Batches with a hundred tasks each, and their callbacks. A few are open.
insert into batches (id, name, queue, implicit, phase, submitted, completed, created, started_at, ended_at) overriding system value
  select n, 'b' || n, 'q1', true, 'ended', 100, 100, pg_temp.moment(n, :n / 1000), pg_temp.moment(n, :n / 1000), pg_temp.moment(n, :n / 1000)
  from generate_series(1, :n / 1000) n;
select setval(pg_get_serial_sequence('batches', 'id'), :n / 1000);
insert into batches (name, queue, implicit, phase, submitted, pending) select 'open' || n, 'q1', false, 'running', 1, 1 from generate_series(1, 20) n;
insert into callbacks (batch_id, event, url, state, created, ended_at)
  select n / 20, 'task_end', 'http://127.0.0.1:9/', 'delivered', pg_temp.moment(n, :n / 50), pg_temp.moment(n, :n / 50) from generate_series(1, :n / 50) n;
insert into callbacks (batch_id, event, url, next_at)
  select n, 'batch_end', 'http://127.0.0.1:9/', now() + case when n <= 50 then interval '-1 s' else interval '1 day' end from generate_series(1, 100) n;
-- A batch that has just ended, one whose blocked tasks are released, and one whose entry task failed.
insert into batches (name, queue, implicit, phase, submitted, pending, completed, entry_id, entry_status)
  values ('due', 'q1', true, 'running', 1, 0, 1, null, null), ('releasing', 'q1', false, 'releasing', 1000, 1000, 0, 1, 'completed'),
    ('failing', 'q1', false, 'releasing', 1000, 1000, 0, 1, 'dead');
insert into tasks (route_id, queue, type, status, run_at, blocked_run_at, batch_id, created, last_updated)
  select 1, 'q1', 't1', 'queued', 'infinity', now(), b.id, now(), now()
  from batches b, generate_series(1, 1000) where b.name in ('releasing', 'failing');
insert into pipelines (name, stages, created, replaced_at)
  select 'p' || n % 10, '[{"name": "one", "type": "t1"}]', pg_temp.moment(n, 200), case when n <= 190 then pg_temp.moment(n, 200) end from generate_series(1, 200) n;

-- Events of queues and schedules, and schedule runs.
insert into queue_events (queue, at, event) select 'q' || n % 10, pg_temp.moment(n, :n / 40), 'queue_paused' from generate_series(1, :n / 40) n;
insert into schedules (name, every_ms, spec, next_at) select 's' || n, 3600000, '{"type": "t1"}', now() + case when n <= 10 then interval '-1 s' else interval '1 hour' end from generate_series(1, 20) n;
insert into schedule_runs (schedule_id, scheduled_at, at, outcome)
  select 1 + n % 20, pg_temp.moment(n, :n / 40), pg_temp.moment(n, :n / 40), 'submitted' from generate_series(1, :n / 40) n;
insert into schedule_events (schedule_id, schedule, at, event)
  select 1 + n % 20, 's' || 1 + n % 20, pg_temp.moment(n, :n / 40), 'schedule_edited' from generate_series(1, :n / 40) n;

-- Statistics of each hour and route, independent of the number of tasks. Half an hour is not counted yet.
insert into executions (hour, queue, type, well, count, total_us, fastest_us, slowest_us, last, last_us)
  select date_trunc('hour', now(), 'UTC') - interval '1 hour' * h, 'q' || n % 10, 't' || n, true, 1, 1, 1, 1, now(), 1
  from generate_series(1, 34 * 24) h, generate_series(1, 100) n;
update executions_rolled set until = date_bin('5 minutes', now() - interval '30 minutes', 'epoch'), settled = date_bin('5 minutes', now() - interval '1 minute', 'epoch'),
  next_at = null, next_xid = null;
insert into metrics (category, name, value, manager_id) select 'manager', 'm' || n, n, 1 + n % 50 from generate_series(1, 1000) n;
select counts_recount();
insert into count_changes (route_id, live) select 1 + n % 100, 2 * (n / 100 % 2) - 1 from generate_series(1, 20000) n;
vacuum analyze;
