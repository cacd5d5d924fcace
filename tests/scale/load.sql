-- Fills a database that a manager has made: psql's variables say how many tasks wait (`waiting`) and how many have ended
-- (`ended`), evenly over the last 20 days. Of a thousand that wait ten have failed before and one is due tomorrow; of a hundred
-- that ended one is dead and one cancelled. 20 queues with 2 types each.
set search_path = reeve;
insert into routes (queue, type)
select 'queue' || q, 'type' || t from generate_series(0, 19) q, generate_series(0, 1) t on conflict do nothing;
select make_history_partitions((now() at time zone 'UTC')::date - 1, 40) \g /dev/null
create temp table way as
select row_number() over (order by id) - 1 as n, id, queue, type from routes where queue ~ '^queue[0-9]+$';
insert into task_history (keep_until, task_id, route_id, priority, queue, type, details, status, run_at, attempt, max_attempts,
  timeout_ms, retry_base_ms, retry_max_ms, worker_id, assignment_id, token, by_report, source, result, last_error, error_code,
  first_started, started, created, last_updated)
select (ended at time zone 'UTC')::date + 31, i, w.id, 0, w.queue, w.type, '{"n":1}',
  case i % 100 when 0 then 'dead' when 1 then 'cancelled' else 'completed' end, ended - interval '3 s', 1, 5,
  60000, 1000, 3600000, 1, 1, ended - interval '1 s', true, 'load', 'ok',
  case i % 100 when 0 then 'error ' || i % 7 end, case i % 100 when 0 then 'E' || i % 3 end,
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
select setval('tasks_id_seq', :ended + :waiting + 1) \g /dev/null
select counts_recount() \g /dev/null
vacuum (analyze) task_history;
vacuum (analyze) history_counts;
vacuum (analyze) tasks;
