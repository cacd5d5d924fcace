-- Returns the numbers of all managers together that /metrics shows: a name, a queue and a type or a word that tells the
-- numbers of one name apart, and the value. Of the queues and types, those with the most live tasks have rows of their own, $1
-- of them; all others are one, with the names `other`. The age of the oldest due task is searched in these as `reeve check`
-- does, in the 100 highest priorities of each, and not in queues that give out no tasks.
--   $1 how many, $2 the lease of workers that request none, in milliseconds
with recursive live as materialized (
  select l.*, r.queue, r.type, row_number() over (order by l.queued + l.delayed + l.executing + l.failed desc, l.route_id) <= $1::bigint
      and (r.queue, r.type) <> ('other', 'other') as own,
    exists (select from queues q where q.name = r.queue and q.state <> 'running') as halted
  from live_totals(null) l join routes r on r.id = l.route_id),
 stream as (
  select w.route_id, 1 as n, t.*
  from live w cross join lateral (
    select t.priority, t.run_at, t.id, t.status in ('queued', 'failed') and t.cancel_requested_at is null as waits
    from tasks t where t.lane is null and t.route_id = w.route_id
    order by t.priority desc, t.run_at, t.id + 0 limit 1) t
  where w.own and not w.halted and w.queued + w.failed > 0
  union all
  select s.route_id, s.n + 1, t.*
  from stream s cross join lateral (
    select t.priority, t.run_at, t.id, t.status in ('queued', 'failed') and t.cancel_requested_at is null
    from tasks t where t.lane is null and t.route_id = s.route_id and t.priority < s.priority
    order by t.priority desc, t.run_at, t.id + 0 limit 1) t
  where s.n < 100),
 oldest as (
  select o.route_id, extract(epoch from statement_timestamp() - min(o.run_at)) as age
  from (
    select s.route_id, s.run_at from stream s where s.waits and s.run_at <= statement_timestamp()
    union all
    select s.route_id, t.run_at
    from stream s cross join lateral (
      select t.run_at from tasks t
      where t.lane is null and t.route_id = s.route_id and t.priority = s.priority
        and t.run_at between s.run_at and statement_timestamp()
        and t.status in ('queued', 'failed') and t.cancel_requested_at is null
      order by t.priority desc, t.run_at, t.id + 0 limit 1) t
    where not s.waits and s.run_at <= statement_timestamp()) o
  group by o.route_id),
 alive as (
  select w.mode, w.concurrency, w.lease_ms, w.hb_at from workers w
  where w.gone_at is null and not w.lost and not w.manual
    and w.hb_at >= clock_timestamp() - interval '1ms' * least(w.lease_ms, $2::bigint)),
 missing as (
  select u.*, row_number() over (order by u.tasks desc, u.queue, u.type) <= $1::bigint and (u.queue, u.type) <> ('other', 'other') as own
  from unserved(null, null) u),
 found (name, queue, type, word, value) as (
  select 'tasks', case when l.own then l.queue else 'other' end, case when l.own then l.type else 'other' end, s.word, sum(s.n)::float8
  from live l cross join lateral (values ('queued', l.queued), ('delayed', l.delayed), ('executing', l.executing), ('failed', l.failed)) s(word, n)
  group by 2, 3, 4
  union all
  select 'oldest', l.queue, l.type, null, coalesce(o.age, 0)::float8 from live l left join oldest o on o.route_id = l.route_id where l.own
  union all
  select 'history', null, null, s.word, coalesce(sum(h.count), 0)::float8
  from unnest(array['completed', 'dead', 'cancelled']) s(word) left join history_totals h on h.status = s.word group by s.word
  union all
  select 'dead', null, null, null, count(*)::float8
  from (select from task_history h where h.status = 'dead' and h.last_updated > statement_timestamp() - interval '1 hour' limit 100000) d
  union all
  select 'workers', null, null, s.word, count(a.mode)::float8
  from unnest(array['running', 'paused', 'draining']) s(word) left join alive a on a.mode = s.word group by s.word
  union all
  select 'slots', null, null, null, coalesce(sum(a.concurrency), 0)::float8 from alive a
  union all
  select 'heartbeat', null, null, null, coalesce(max(extract(epoch from clock_timestamp() - a.hb_at)), 0)::float8 from alive a
  union all
  select 'pull', null, null, null, count(*)::float8 from workers w where w.gone_at is null and w.manual
  union all
  select 'unserved', case when m.own then m.queue else 'other' end, case when m.own then m.type else 'other' end, null, sum(m.tasks)::float8
  from missing m group by 2, 3
  union all
  select 'callbacks', null, null, null, count(*)::float8
  from (select from callbacks c where c.state = 'waiting' limit 100000) c
  union all
  select 'schedules', null, null, case when s.paused then 'paused' else 'active' end, count(*)::float8 from schedules s group by 4
  union all
  select 'late', null, null, null, greatest(coalesce(extract(epoch from statement_timestamp() - min(s.next_at)), 0), 0)::float8
  from schedules s where not s.paused)
select name, queue, type, word, value from found order by name, queue, type, word
