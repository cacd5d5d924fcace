-- Finds what grows and should not. Only the conditions in $3 are checked, each by an index that has little else in it, so
-- that this is quick whatever waits and whatever has ended: what ended dead within the last hour (the first 100,000 are
-- counted), what has failed and waits for a retry (all are counted; the examples come from about 1,000 tasks, shared in
-- proportion among the 1,000 routes with the most), since when the longest-waiting due task has been due (queues that give
-- out no tasks do not count), attempts that have been executing, and schedules whose firing is overdue, for more than the
-- milliseconds in $4, callbacks given up within the last hour, tasks that no worker accepts, tasks in queues that give out
-- none, scheduled times that were missed and runs of schedules that were refused within the last hour (of the first 100,000
-- runs), tasks of the longest queue. The examples are the largest groups or the longest times. The manager is set, to
-- anything, if the queue and the type are known.
-- takes CheckRequest: queue?, type?, questions[].kind, questions[].longer_ms
-- gives CheckResponse.measures: kind, count, longest_ms, examined, examples, .manager
with recursive ways as materialized (
  select r.id, r.queue, r.type from routes r
  where r.retired is null and ($1::text is null or r.queue = $1) and ($2::text is null or r.type = $2)
    and not exists (select from queues q where q.name = r.queue and q.state <> 'running')),
 -- The first task of each priority of each route, from the highest down: one probe each, for up to 10,000 of them.
 stream as (
  select w.id as route_id, 1 as n, t.*
  from ways w cross join lateral (
    select t.priority, t.run_at, t.id, t.status in ('queued', 'failed') and t.cancel_requested_at is null as waits
    from tasks t where t.lane is null and t.route_id = w.id
    order by t.priority desc, t.run_at, t.id + 0 limit 1) t
  where 'oldest_queued' = any($3::text[])
  union all
  select s.route_id, s.n + 1, t.*
  from stream s cross join lateral (
    select t.priority, t.run_at, t.id, t.status in ('queued', 'failed') and t.cancel_requested_at is null
    from tasks t where t.lane is null and t.route_id = s.route_id and t.priority < s.priority
    order by t.priority desc, t.run_at, t.id + 0 limit 1) t
  where s.n < 10000),
 oldest as (
  select * from (
    select s.id, s.run_at, s.route_id from stream s where s.waits and s.run_at <= statement_timestamp()
    union all
    select t.id, t.run_at, s.route_id
    from stream s cross join lateral (
      select t.id, t.run_at from tasks t
      where t.lane is null and t.route_id = s.route_id and t.priority = s.priority
        and t.run_at between s.run_at and statement_timestamp()
        and t.status in ('queued', 'failed') and t.cancel_requested_at is null
      order by t.priority desc, t.run_at, t.id + 0 limit 1) t
    where not s.waits and s.run_at <= statement_timestamp()) o
  order by o.run_at limit 1),
 -- Tasks that are given out together are claimed together: the journal's row has the time, except for the duration of
 -- the claim.
 longest as (
  select t.last_updated
  from (select a.id, a.task_ids from assignments a where ($4::bigint[])[array_position($3::text[], 'running')] is not null and a.closed_at is null order by a.at offset 0) a
  cross join lateral unnest(a.task_ids) x(id)
  cross join lateral (
    select t.last_updated from tasks t
    where t.id = x.id and t.assignment_id = a.id and t.status = 'executing'
      and ($1::text is null or t.queue = $1) and ($2::text is null or t.type = $2)
    offset 0) t
  limit 1),
 running as (
  select t.*, count(*) over () as total, row_number() over (order by t.last_updated, t.id) as place
  from assignments a cross join lateral unnest(a.task_ids) x(id)
  cross join lateral (
    select t.id, t.queue, t.type, t.worker_id, t.last_updated from tasks t
    where t.id = x.id and t.assignment_id = a.id and t.status = 'executing'
      and t.last_updated < statement_timestamp() - interval '1ms' * ($4::bigint[])[array_position($3::text[], 'running')]
      and ($1::text is null or t.queue = $1) and ($2::text is null or t.type = $2)
    offset 0) t
  where ($4::bigint[])[array_position($3::text[], 'running')] is not null and a.closed_at is null
    and a.at < statement_timestamp() - interval '1ms' * ($4::bigint[])[array_position($3::text[], 'running')] + interval '1 minute'),
 overdue as (
  select s.id, s.name, s.next_at, s.concurrency_policy, s.last_task_id, coalesce(s.spec ->> 'type', '') as type,
    case when s.spec is null then s.action_queue else coalesce(s.spec ->> 'queue', 'default') end as queue
  from schedules s
  where ($4::bigint[])[array_position($3::text[], 'schedules')] is not null and not s.paused and s.next_at < statement_timestamp()
    and ($1::text is null or $1 = case when s.spec is null then s.action_queue else coalesce(s.spec ->> 'queue', 'default') end)
    and ($2::text is null or $2 = s.spec ->> 'type')),
 late as (
  select o.*, count(*) over () as total, row_number() over (order by o.next_at, o.id) as place
  from overdue o where o.next_at < statement_timestamp() - interval '1ms' * ($4::bigint[])[array_position($3::text[], 'schedules')]),
 dead as (
  select h.task_id, h.queue, h.type, coalesce(h.error_code, '') as error_code from task_history h
  where 'dead' = any($3::text[]) and h.status = 'dead' and h.last_updated > statement_timestamp() - interval '1 hour'
    and ($1::text is null or h.queue = $1) and ($2::text is null or h.type = $2)
  limit 100000),
 failing as materialized (
  select l.route_id, l.failed, (sum(l.failed) over ())::bigint as total from live_totals($1) l join routes r on r.id = l.route_id
  where 'failed' = any($3::text[]) and l.failed > 0 and ($2::text is null or r.type = $2)
  order by l.failed desc limit 1000),
 failed as (
  select t.*
  from failing f cross join lateral (
    select t.id, t.queue, t.type, coalesce(t.error_code, '') as error_code from tasks t
    where t.route_id = f.route_id and t.retrying and t.status = 'failed'
    limit ceil(f.failed * 1000.0 / f.total)::bigint) t),
 lapsed as materialized (
  select r.*
  from (
    select x.id, x.outcome, x.note, coalesce(x.missed, 1) as n, s.name, coalesce(s.spec ->> 'type', '') as type,
      case when s.spec is null then s.action_queue else coalesce(s.spec ->> 'queue', 'default') end as queue
    from schedule_runs x join schedules s on s.id = x.schedule_id
    where $3::text[] && '{missed,refused}' and x.at > statement_timestamp() - interval '1 hour' and x.outcome = any($3::text[])
    limit 100000) r
  where r.outcome in ('missed', 'refused') and ($1::text is null or r.queue = $1) and ($2::text is null or r.type = $2)),
 found (what, total, longest_ms, n, ms, id, queue, type, name, other_id) as materialized (
  (select 'dead', (sum(count(*)) over ())::bigint, 0, count(*), 0, max(d.task_id), d.queue, d.type, d.error_code, 0
   from dead d group by d.queue, d.type, d.error_code order by count(*) desc, 6 limit 10)
  union all
  select 'failed', max(f.total), 0, 0, 0, 0, '', '', '', 0 from failing f having count(*) > 0
  union all
  (select 'failed', (sum(count(*)) over ())::bigint, 0, count(*), 0, max(f.id), f.queue, f.type, f.error_code, 0
   from failed f group by f.queue, f.type, f.error_code order by count(*) desc, 6 limit 10)
  union all
  select 'oldest_queued', 1, a.ms, 1, a.ms, o.id, w.queue, w.type, '', 0
  from oldest o join ways w on w.id = o.route_id
  cross join lateral (select (extract(epoch from statement_timestamp() - o.run_at) * 1000)::bigint as ms) a
  union all
  select 'running', 0, (extract(epoch from statement_timestamp() - l.last_updated) * 1000)::bigint, 0, 0, 0, '', '', '', 0 from longest l
  union all
  select 'running', r.total, (extract(epoch from statement_timestamp() - r.last_updated) * 1000)::bigint, 1, (extract(epoch from statement_timestamp() - r.last_updated) * 1000)::bigint, r.id, r.queue, r.type,
    coalesce(w.name, ''), 0
  from running r left join workers w on w.id = r.worker_id where r.place <= 10
  union all
  select 'schedules', 0, (extract(epoch from statement_timestamp() - min(o.next_at)) * 1000)::bigint, 0, 0, 0, '', '', '', 0 from overdue o having count(*) > 0
  union all
  select 'schedules', l.total, (extract(epoch from statement_timestamp() - l.next_at) * 1000)::bigint, 1, (extract(epoch from statement_timestamp() - l.next_at) * 1000)::bigint, 0, l.queue, l.type, l.name,
    case when l.concurrency_policy = 'queue' then coalesce((select t.id from tasks t where t.id = l.last_task_id), 0) else 0 end
  from late l where l.place <= 10
  union all
  (select 'callbacks', (sum(count(*)) over ())::bigint, 0, count(*), 0, max(c.id), b.queue, '', c.site, 0
   from callbacks c left join batches b on b.id = c.batch_id
   where 'callbacks' = any($3::text[]) and c.state = 'given_up' and c.ended_at > statement_timestamp() - interval '1 hour'
     and ($1::text is null or b.queue = $1)
   group by b.queue, c.site order by count(*) desc, 6 limit 10)
  union all
  (select 'unserved', (sum(u.tasks) over ())::bigint, 0, u.tasks, 0, 0, u.queue, u.type, '', 0
   from unserved($1, $2) u where 'unserved' = any($3::text[]) order by u.tasks desc, u.queue, u.type limit 10)
  union all
  (select 'halted', (sum(sum(l.queued + l.failed)) over ())::bigint, 0, sum(l.queued + l.failed)::bigint, 0, 0, q.name, '', q.state, 0
   from live_totals($1) l join routes r on r.id = l.route_id join queues q on q.name = r.queue and q.state <> 'running'
   where 'halted' = any($3::text[]) and l.queued + l.failed > 0 and ($2::text is null or r.type = $2)
   group by q.name, q.state order by 4 desc, q.name limit 10)
  union all
  (select l.outcome, (sum(sum(l.n)) over (partition by l.outcome))::bigint, 0, sum(l.n)::bigint, 0, 0, l.queue, l.type,
     case l.outcome when 'missed' then l.name else concat_ws(': ', l.name, left((array_agg(l.note order by l.id desc))[1], 200)) end, 0
   from lapsed l group by l.outcome, l.name, l.queue, l.type order by 4 desc, l.name limit 20)
  union all
  (select 'queue_length', (max(sum(l.queued + l.failed)) over ())::bigint, 0, sum(l.queued + l.failed)::bigint, 0, 0, r.queue, '', '', 0
   from live_totals($1) l join routes r on r.id = l.route_id
   where 'queue_length' = any($3::text[]) and l.queued + l.failed > 0 and ($2::text is null or r.type = $2)
   group by r.queue order by 4 desc, r.queue limit 10))
select q.kind, coalesce(max(f.total), 0) as count, coalesce(max(f.longest_ms), 0) as longest_ms,
  coalesce(max(f.total) filter (where f.n > 0), 0) as examined,
  jsonb_agg(jsonb_build_object('count', f.n, 'ms', f.ms, 'task_id', f.id, 'queue', f.queue, 'type', f.type, 'name', f.name,
    'waits_for', f.other_id) order by f.n desc, f.ms desc, f.id, f.queue, f.type) filter (where f.n > 0) as examples, k.known
from (
  select case when ($1::text is null or queue_known($1)
      or exists (select from schedules where $1 in (action_queue, case when spec is not null then coalesce(spec ->> 'queue', 'default') end)))
    and ($2::text is null or exists (select from routes r where r.type = $2 and ($1::text is null or r.queue = $1))
      or exists (select from schedules s where s.spec ->> 'type' = $2 and ($1::text is null or coalesce(s.spec ->> 'queue', 'default') = $1)))
    then 'known' end as known) k
left join unnest($3::text[]) with ordinality q(kind, place) on true
left join found f on f.what = q.kind
group by q.kind, q.place, k.known
order by q.place
