-- Returns what managers have done since a time: by minute, by hour, or by queue and type. By queue and type, minutes are
-- added up if the time is within the last day, else hours. The histograms count by bucket; a sum for each bucket costs a
-- tenth of unnest. At most 1500 rows: of times the latest ones, of queues and types those with the most attempts. Without
-- a time it is infinity, which reads as 0.
-- By time and not of one type also how many tasks there were: a sample, or the average and the maximum of an hour. A
-- queue without a row had no tasks, unless it may be among the others.
-- takes ActivityRequest: by, queue?, type?, since_us
-- gives ActivityResponse.points: at_us, queue, type, submitted, begun, completed, failed, retried, dead, ended, waited, waited_ms, took, took_ms,
--   depth.queued, depth.delayed, depth.executing, depth.failed, depth.dead, max.queued, max.delayed, max.executing, max.failed, max.dead
with done as (
  select case when $1::text <> 'type' then a.at else 'infinity' end as at, case when $1::text = 'type' then n.queue end as queue,
    case when $1::text = 'type' then n.type end as type, sum(a.submitted)::bigint as submitted, sum(a.begun)::bigint as begun,
    sum(a.completed)::bigint as completed, sum(a.failed)::bigint as failed, sum(a.retried)::bigint as retried,
    sum(a.dead)::bigint as dead, sum(a.ended)::bigint as ended,
    array[sum(a.waited[1]), sum(a.waited[2]), sum(a.waited[3]), sum(a.waited[4]), sum(a.waited[5]), sum(a.waited[6]),
      sum(a.waited[7]), sum(a.waited[8]), sum(a.waited[9]), sum(a.waited[10]), sum(a.waited[11]), sum(a.waited[12]),
      sum(a.waited[13]), sum(a.waited[14]), sum(a.waited[15]), sum(a.waited[16]), sum(a.waited[17]), sum(a.waited[18]),
      sum(a.waited[19]), sum(a.waited[20]), sum(a.waited[21])]::bigint[] as waited,
    (sum(a.waited_us) / 1000)::bigint as waited_ms,
    array[sum(a.took[1]), sum(a.took[2]), sum(a.took[3]), sum(a.took[4]), sum(a.took[5]), sum(a.took[6]),
      sum(a.took[7]), sum(a.took[8]), sum(a.took[9]), sum(a.took[10]), sum(a.took[11]), sum(a.took[12]),
      sum(a.took[13]), sum(a.took[14]), sum(a.took[15]), sum(a.took[16]), sum(a.took[17]), sum(a.took[18]),
      sum(a.took[19]), sum(a.took[20]), sum(a.took[21])]::bigint[] as took,
    (sum(a.took_us) / 1000)::bigint as took_ms
  from activity a left join routes r on r.id = a.route_id,
    lateral (select case when a.route_id = 0 then 'other' else r.queue end as queue,
      case when a.route_id = 0 then 'other' else r.type end as type) n
  where a.hourly = ($1::text = 'hour' or $1::text = 'type' and $4::timestamptz < statement_timestamp() - interval '1 day')
    and a.at >= date_trunc(case when a.hourly then 'hour' else 'minute' end, $4::timestamptz, 'UTC')
    and ($2::text is null or n.queue = $2) and ($3::text is null or n.type = $3)
  group by 1, 2, 3),
 sampled as (
  select s.at, round(coalesce(d.queued, 0)::numeric / s.samples)::bigint as depth_queued,
    round(coalesce(d.delayed, 0)::numeric / s.samples)::bigint as depth_delayed,
    round(coalesce(d.executing, 0)::numeric / s.samples)::bigint as depth_executing,
    round(coalesce(d.failed, 0)::numeric / s.samples)::bigint as depth_failed,
    round(coalesce(d.dead, 0)::numeric / s.samples)::bigint as depth_dead,
    coalesce(d.max_queued, 0) as max_queued, coalesce(d.max_delayed, 0) as max_delayed, coalesce(d.max_executing, 0) as max_executing,
    coalesce(d.max_failed, 0) as max_failed, coalesce(d.max_dead, 0) as max_dead
  from depths s left join depths d on d.hourly = s.hourly and d.queue = coalesce($2::text, '') and d.at = s.at
  where $1::text <> 'type' and $3::text is null and s.queue = '' and s.hourly = ($1::text = 'hour')
    and s.at >= date_trunc(case when $1::text = 'hour' then 'hour' else 'minute' end, $4::timestamptz, 'UTC')
    and (d.at is not null or not exists (select from depths o where o.hourly = s.hourly and o.queue = 'other' and o.at = s.at)))
select at, queue, type, submitted, begun, completed, failed, retried, dead, ended, waited, waited_ms, took, took_ms,
  depth_queued, depth_delayed, depth_executing, depth_failed, depth_dead, max_queued, max_delayed, max_executing, max_failed, max_dead
from (select * from done full join sampled using (at) order by at desc, begun desc nulls last limit 1500) x
order by at, queue, type
