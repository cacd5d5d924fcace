-- What went wrong since a time, in groups: attempts that failed, tasks that wait after that, tasks that ended dead. Only where it
-- is asked for are attempts brought together with their tasks. No task that ended dead since then may go before that day.
--   $1 whether by code, else by text; $2 queue or null, $3 type or null, $4 since, $5 how many groups, $6 bytes: of their texts no
--   more than that is answered, and two groups
with wrong as (
  select coalesce(a.error, '') as error, coalesce(a.error_code, '') as code, a.last_updated as at, a.task_id,
    1 as attempts, 0 as waiting, 0 as dead
  from task_attempts a
  left join (select id, queue, type from all_tasks where $2::text is not null or $3::text is not null) t on t.id = a.task_id
  where a.last_updated >= $4 and (a.outcome in ('failed', 'fatal', 'expired', 'lost', 'dead')
      or a.outcome in ('lease_ended', 'taken_back') and a.status in ('failed', 'dead'))
    and ($2::text is null or t.queue = $2) and ($3::text is null or coalesce(a.type, t.type) = $3)
  union all
  select coalesce(last_error, ''), coalesce(error_code, ''), last_updated, task_id, (token is not null)::int, 0, 1
  from task_history
  where status = 'dead' and last_updated >= $4 and last_updated < 'infinity' and keep_until >= ($4 at time zone 'UTC')::date
    and ($2::text is null or queue = $2) and ($3::text is null or type = $3)
  union all
  select coalesce(last_error, ''), coalesce(error_code, ''), null, id, 0, 1, 0
  from tasks
  where status = 'failed' and last_updated >= $4 and ($2::text is null or queue = $2) and ($3::text is null or type = $3)),
 pairs as (
  select error, code, sum(attempts) as attempts, sum(waiting) as waiting, sum(dead) as dead, min(at) as first, max(at) as last,
    max(array[extract(epoch from at) * 1000000, task_id]::bigint[]) filter (where at is not null) as latest,
    max(task_id) as any_id
  from wrong group by 1, 2),
 grouped as (
  select (array_agg(error order by latest desc nulls last))[1] as error,
    (array_agg(code order by latest desc nulls last))[1] as error_code,
    sum(attempts)::bigint as attempts, sum(waiting)::bigint as waiting, sum(dead)::bigint as dead,
    min(first) as first, max(last) as last, coalesce((max(latest))[2], max(any_id)) as example_id
  from pairs
  group by case when $1::boolean then code else error end
  order by attempts desc, dead desc, last desc, error limit $5)
select error, error_code, attempts, waiting, dead, first, last, example_id
from (
  select g.*, sum(octet_length(error)) over (order by attempts desc, dead desc, last desc, error
    rows between unbounded preceding and 2 preceding) as before
  from grouped g) g
where coalesce(before, 0) < $6::bigint
order by attempts desc, dead desc, last desc, error
