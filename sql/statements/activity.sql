-- Returns what managers have done since a time: by minute, by hour, or by queue and type. By queue and type, minutes are
-- added up if the time is within the last day, else hours. The histograms count by bucket. At most 1500 rows: of times the
-- latest ones, of queues and types those with the most attempts. Without a time it is infinity, which reads as 0.
-- takes ActivityRequest: by, queue?, type?, since_us
-- gives ActivityResponse.points: at_us, queue, type, submitted, begun, completed, failed, retried, dead, ended, waited, waited_ms, took, took_ms
with matching as materialized (
  select a.*, case when a.route_id = 0 then 'other' else r.queue end as queue, case when a.route_id = 0 then 'other' else r.type end as type
  from activity a left join routes r on r.id = a.route_id
  where a.hourly = ($1::text = 'hour' or $1::text = 'type' and $4::timestamptz < statement_timestamp() - interval '1 day')
    and a.at >= date_trunc(case when a.hourly then 'hour' else 'minute' end, $4::timestamptz, 'UTC')
    and ($2::text is null or case when a.route_id = 0 then 'other' else r.queue end = $2)
    and ($3::text is null or case when a.route_id = 0 then 'other' else r.type end = $3)),
 buckets as (
  select case when $1::text <> 'type' then m.at else 'infinity' end as at, case when $1::text = 'type' then m.queue end as queue,
    case when $1::text = 'type' then m.type end as type, u.n, sum(u.waited)::bigint as waited, sum(u.took)::bigint as took
  from matching m cross join lateral unnest(m.waited, m.took) with ordinality u(waited, took, n)
  group by 1, 2, 3, 4),
 times as (
  select at, queue, type, array_agg(waited order by n) as waited, array_agg(took order by n) as took from buckets group by 1, 2, 3),
 sums as (
  select case when $1::text <> 'type' then m.at else 'infinity' end as at, case when $1::text = 'type' then m.queue end as queue,
    case when $1::text = 'type' then m.type end as type, sum(submitted)::bigint as submitted, sum(begun)::bigint as begun,
    sum(completed)::bigint as completed, sum(failed)::bigint as failed, sum(retried)::bigint as retried, sum(dead)::bigint as dead,
    sum(ended)::bigint as ended, (sum(waited_us) / 1000)::bigint as waited_ms, (sum(took_us) / 1000)::bigint as took_ms
  from matching m group by 1, 2, 3)
select * from (
  select s.at, s.queue, s.type, s.submitted, s.begun, s.completed, s.failed, s.retried, s.dead, s.ended, t.waited, s.waited_ms, t.took,
    s.took_ms
  from sums s left join times t on t.at is not distinct from s.at and t.queue is not distinct from s.queue and t.type is not distinct from s.type
  order by s.at desc, s.begun desc limit 1500) x
order by at, queue, type
