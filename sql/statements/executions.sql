-- Attempts that ended since a time, by hour or by queue and type: how many, how many of them well, and how long they took
-- from claim to end. Those that never arrived at their worker do not count. Whole hours are in `executions`, as far as they
-- have been counted there; the rest is counted from the attempts and, of the last attempt of a task that has ended, from the
-- history, where no such task may go before the day it ended on. Attempts are brought together with their tasks only where
-- that is asked for.
--   $1 whether by type, else by hour; $2 queue or null, $3 type or null, $4 since
with bounds as (
  select r.until, date_trunc('hour', $4::timestamptz + interval '1 hour - 1 microsecond', 'UTC') as whole
  from executions_rolled r)
select case when not $1::boolean then hour end as hour,
  case when $1 then queue end as queue, case when $1 then type end as type,
  sum(count)::bigint as count, sum(completed)::bigint as completed, (sum(total_us) / 1000)::bigint as total,
  (sum(total_us) / sum(count) / 1000)::bigint as average, (min(fastest_us) / 1000.0)::bigint as fastest,
  (max(slowest_us) / 1000.0)::bigint as slowest, max(last) as last
from (
  select x.hour, x.queue, x.type, x.count, x.completed, x.total_us, x.fastest_us, x.slowest_us, x.last
  from executions x
  where x.hour >= (select whole from bounds) and ($2::text is null or x.queue = $2) and ($3::text is null or x.type = $3)
  union all
  select date_trunc('hour', e.ended, 'UTC'), e.queue, e.type, 1, e.well::int, e.us, e.us, e.us, e.ended
  from bounds
  cross join lateral (values ($4, least(whole, until)), (greatest($4, until), 'infinity')) as span(first, behind)
  cross join lateral executions_raw(span.first, span.behind, ($4 at time zone 'UTC')::date,
    $1::boolean or $2::text is not null or $3::text is not null) e
  where ($2::text is null or e.queue = $2) and ($3::text is null or e.type = $3)) e
group by 1, 2, 3 order by 1, 2, 3
