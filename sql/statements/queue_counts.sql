-- What stands in each queue, by type. $1 queue or null.
select r.queue, r.type,
  count(t.id) filter (where t.status = 'queued' and t.run_at <= statement_timestamp()) as queued,
  count(t.id) filter (where t.status = 'queued' and t.run_at > statement_timestamp()) as delayed,
  count(t.id) filter (where t.status = 'executing') as executing,
  count(t.id) filter (where t.status = 'failed') as failed,
  min(t.run_at) filter (where t.status in ('queued', 'failed') and t.run_at <= statement_timestamp()) as oldest_due
from routes r left join tasks t on t.route_id = r.id
where $1::text is null or r.queue = $1
group by r.queue, r.type order by r.queue, r.type
