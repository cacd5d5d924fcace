-- Attempts that ended since a time, by hour or by queue and type: how many, how many of them well, and how long they took
-- from claim to end. Those that never arrived at their worker do not count. The last attempt of a task that has ended is in
-- the history, where no such task may go before the day it ended on; the others are among the attempts, which are brought
-- together with their tasks only where that is asked for.
--   $1 whether by type, else by hour; $2 queue or null, $3 type or null, $4 since
select case when not $1::boolean then date_trunc('hour', ended) end as hour,
  case when $1 then queue end as queue, case when $1 then type end as type,
  count(*) as count, count(*) filter (where well) as completed,
  (sum(ms))::bigint as total, (avg(ms))::bigint as average, (min(ms))::bigint as fastest, (max(ms))::bigint as slowest,
  max(ended) as last
from (
  select queue, type, well, ended, extract(epoch from ended - token) * 1000 as ms
  from (
    select t.queue, coalesce(a.type, t.type) as type, a.outcome = 'completed' as well, a.token, a.last_updated as ended
    from task_attempts a
    left join (select id, queue, type from all_tasks where $1::boolean or $2::text is not null or $3::text is not null) t
      on t.id = a.task_id
    where a.last_updated >= $4 and a.outcome <> 'taken_back'
      and ($2::text is null or t.queue = $2) and ($3::text is null or coalesce(a.type, t.type) = $3)
    union all
    select queue, type, status = 'completed', token, last_updated
    from task_history
    where token is not null and last_updated >= $4 and keep_until >= ($4 at time zone 'UTC')::date
      and ($2::text is null or queue = $2) and ($3::text is null or type = $3)) a) e
group by 1, 2, 3 order by 1, 2, 3
