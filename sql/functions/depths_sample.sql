-- Notes how many tasks there are, once a minute: the first session that finds no sample of this minute does so, from the
-- stored counts. At most `own_max` queues have rows of their own in an hour: first those that have one already, then those
-- with the most tasks. All others are together `other`.
create or replace function depths_sample(own_max int) returns void language plpgsql as $$
declare
  this_minute constant timestamptz := date_trunc('minute', clock_timestamp(), 'UTC');
  this_hour constant timestamptz := date_trunc('hour', this_minute, 'UTC');
begin
  if exists (select from depths where not hourly and queue = '' and at = this_minute) then
    return;
  end if;
  perform from locks where name = 'depths' for no key update skip locked;
  if not found or exists (select from depths where not hourly and queue = '' and at = this_minute) then
    return;
  end if;
  with counted as (
    select route_id, queued, delayed, executing, failed, 0 as dead from live_totals(null)
    union all
    select route_id, 0, 0, 0, 0, count from history_totals where status = 'dead'),
   queues as (
    select nullif(r.queue, 'other') as queue, sum(c.queued) as queued, sum(c.delayed) as delayed, sum(c.executing) as executing,
      sum(c.failed) as failed, sum(c.dead) as dead
    from counted c left join routes r on r.id = c.route_id group by 1),
   own as (
    select queue from depths where hourly and at = this_hour and queue not in ('', 'other')),
   ranked as (
    select q.*, o.queue is not null as has_row, row_number() over (
      partition by o.queue is null, q.queue is null order by q.queued + q.delayed + q.executing + q.failed desc, q.dead desc, q.queue) as place
    from queues q left join own o on o.queue = q.queue
    where q.queued + q.delayed + q.executing + q.failed + q.dead > 0),
   named as (
    select case when has_row or queue is not null and place <= own_max - (select count(*) from own) then queue else 'other' end as name,
      queued, delayed, executing, failed, dead
    from ranked),
   sample as (
    select coalesce(name, '') as name, coalesce(sum(queued), 0)::bigint as queued, coalesce(sum(delayed), 0)::bigint as delayed,
      coalesce(sum(executing), 0)::bigint as executing, coalesce(sum(failed), 0)::bigint as failed, coalesce(sum(dead), 0)::bigint as dead
    from named group by grouping sets ((name), ()))
  insert into depths as d (hourly, at, queue, samples, queued, delayed, executing, failed, dead,
    max_queued, max_delayed, max_executing, max_failed, max_dead)
  select t.hourly, t.at, s.name, 1, s.queued, s.delayed, s.executing, s.failed, s.dead, s.queued, s.delayed, s.executing, s.failed, s.dead
  from sample s cross join (values (false, this_minute), (true, this_hour)) t(hourly, at)
  on conflict (hourly, queue, at) do update set samples = d.samples + 1, queued = d.queued + excluded.queued,
    delayed = d.delayed + excluded.delayed, executing = d.executing + excluded.executing, failed = d.failed + excluded.failed,
    dead = d.dead + excluded.dead, max_queued = greatest(d.max_queued, excluded.max_queued),
    max_delayed = greatest(d.max_delayed, excluded.max_delayed), max_executing = greatest(d.max_executing, excluded.max_executing),
    max_failed = greatest(d.max_failed, excluded.max_failed), max_dead = greatest(d.max_dead, excluded.max_dead);
end $$;
