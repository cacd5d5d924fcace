-- Fills a database that a manager has created. psql's variables set how many tasks wait (`waiting`) and how many have
-- ended (`ended`), evenly over the last 20 days. Of a thousand waiting tasks ten have failed before and one is due
-- tomorrow. Of a hundred ended tasks one is dead, one is cancelled, and one belongs to batch 2. In addition, 20,000
-- tasks are executing, each in its own assignment. There are 20 queues with 2 types each. For each thousand ended tasks
-- there are a batch with 20 callbacks, one of them given up, a worker that is gone, ten runs of schedule-1, and a
-- metric; for each ten thousand a pipeline and a schedule.
set search_path = reeve;
insert into routes (queue, type)
select 'queue' || q, 'type' || t from generate_series(0, 19) q, generate_series(0, 1) t on conflict do nothing;
select make_history_partitions((now() at time zone 'UTC')::date - 1, 40) \g /dev/null
create temp table way as
select row_number() over (order by id) - 1 as n, id, queue, type from routes where queue ~ '^queue[0-9]+$';
insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
  timeout_ms, retry_base_ms, retry_max_ms, worker_id, assignment_id, token, by_report, source, result, last_error, error_code, batch_id,
  first_started, started, created, last_updated)
select (ended at time zone 'UTC')::date + 31, i, w.id, 0, w.queue, w.type, '{"n":1}',
  case i % 100 when 0 then 'dead' when 1 then 'cancelled' else 'completed' end, ended - interval '3 s', 1, 5,
  60000, 1000, 3600000, 1, 1, ended - interval '1 s', true, 'load', 'ok',
  case i % 100 when 0 then 'error ' || i % 7 end, case i % 100 when 0 then 'E' || i % 3 end, case i % 100 when 3 then 2 end,
  ended - interval '1 s', ended - interval '1 s', ended - interval '3 s', ended
from generate_series(1, :ended::bigint) i
cross join lateral (select now() - interval '1 hour' - interval '20 days' * (:ended - i) / :ended as ended) e
join way w on w.n = i % 40
order by i;
insert into tasks (id, route_id, queue, type, details, status, run_at, attempt, source, last_error, error_code, started, created,
  last_updated) overriding system value
select :ended + i, w.id, w.queue, w.type, '{"n":1}', case when i % 1000 < 10 then 'failed' else 'queued' end,
  at + case when i % 1000 = 500 then interval '1 day' else '0' end, (i % 1000 < 10)::int, 'load',
  case when i % 1000 < 10 then 'error ' || i % 7 end, case when i % 1000 < 10 then 'E' || i % 3 end,
  case when i % 1000 < 10 then at end, at, at
from generate_series(1, :waiting::bigint) i
cross join lateral (select now() - interval '1 hour' * (:waiting - i) / :waiting as at) e
join way w on w.n = i % 40
order by i;
insert into tasks (id, route_id, queue, type, details, status, run_at, attempt, source, worker_id, assignment_id, expiry, created, last_updated)
  overriding system value
select :ended + :waiting + i, w.id, w.queue, w.type, '{"n":1}', 'executing', now() - interval '2 s', 1, 'load', 1, i, now() + interval '1 day',
  now() - interval '2 s', now() - interval '1 s'
from generate_series(1, 20000) i join way w on w.n = i % 40 order by i;
insert into task_attempts (task_id, token, attempt, outcome, status, by_report, error, error_code, queue, type, last_updated)
select id, started, 1, 'failed', 'failed', true, last_error, error_code, queue, type, last_updated from tasks where status = 'failed';
insert into batches (name, queue, implicit, phase, ended_at)
select 'batch ' || i, 'queue' || i % 20, false, case when i % 100 = 0 then 'running' else 'ended' end, now()
from generate_series(1, :ended::bigint / 1000) i;
insert into callbacks (batch_id, event, url, state, ended_at)
select b.id, 'task_end', 'http://127.0.0.1/' || n, case when n = 1 then 'given_up' else 'delivered' end, now()
from batches b, generate_series(1, 20) n;
insert into workers (name, host, lost, gone_at) select 'worker ' || i, 'load', true, now() from generate_series(1, :ended::bigint / 1000) i;
insert into pipelines (name, stages)
select 'pipeline ' || i, '[{"name": "one", "type": "t", "max_attempts": 5, "timeout_ms": 60000, "retry_base_ms": 1000, "retry_max_ms": 60000}]'
from generate_series(1, :ended::bigint / 10000) i on conflict do nothing;
insert into schedules (name, every_ms, spec, paused)
select 'schedule-' || i, 60000, '{"type": "t"}', true from generate_series(1, :ended::bigint / 10000) i on conflict do nothing;
insert into schedule_runs (schedule_id, scheduled_at, outcome, task_id)
select s.id, now() - interval '1 minute' * i, 'submitted', :ended - i
from generate_series(1, :ended::bigint / 100) i, schedules s where s.name = 'schedule-1' on conflict do nothing;
insert into metrics (category, name, value) select 'load', 'metric ' || i, i from generate_series(1, :ended::bigint / 1000) i on conflict do nothing;
select setval('tasks_id_seq', :ended + :waiting + 20001), setval('assignments_id_seq', 20001) \g /dev/null
select counts_recount() \g /dev/null
insert into assignments (id, worker_id, fetch_id, next_expiry, task_ids, open, plain_route) overriding system value
select assignment_id, worker_id, assignment_id, expiry, array[id], 1, route_id from tasks where status = 'executing' order by id;
vacuum (analyze) task_history;
vacuum (analyze) history_counts;
vacuum (analyze) tasks;
vacuum (analyze) assignments;
vacuum (analyze) task_attempts;
vacuum (analyze) batches;
vacuum (analyze) callbacks;
vacuum (analyze) workers;
vacuum (analyze) schedule_runs;
vacuum (analyze) metrics;
