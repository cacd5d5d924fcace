-- Adds numbers of a manager to this minute and this hour: a row for each queue and type, by its route; 0: those beyond the
-- limit. The histograms' buckets, $11 a row, follow each other.
--   $1 routes, $2 tasks submitted, $3 attempts begun, $4 completed, $5 failed, $6 followed by another one, $7 tasks ended
--   dead, $8 in any way, $9 how long tasks waited in all, $10 how long attempts took, $12 and $13 the same by bucket
with given as (
  select u.*, ($12::bigint[])[(u.n - 1) * $11::int + 1 : u.n * $11::int] as waited,
    ($13::bigint[])[(u.n - 1) * $11::int + 1 : u.n * $11::int] as took
  from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
      $10::bigint[]) with ordinality
    u(route_id, submitted, begun, completed, failed, retried, dead, ended, waited_us, took_us, n))
insert into activity as a (hourly, at, route_id, submitted, begun, completed, failed, retried, dead, ended, waited, waited_us, took, took_us)
select s.hourly, date_trunc(s.unit, statement_timestamp(), 'UTC'), g.route_id::int, g.submitted, g.begun, g.completed, g.failed, g.retried,
  g.dead, g.ended, g.waited, g.waited_us, g.took, g.took_us
from given g cross join (values (false, 'minute'), (true, 'hour')) s(hourly, unit)
order by s.hourly, g.route_id -- managers lock the rows in one order
on conflict (hourly, at, route_id) do update set submitted = a.submitted + excluded.submitted, begun = a.begun + excluded.begun,
  completed = a.completed + excluded.completed, failed = a.failed + excluded.failed, retried = a.retried + excluded.retried,
  dead = a.dead + excluded.dead, ended = a.ended + excluded.ended, waited = sum_of_arrays(a.waited, excluded.waited),
  waited_us = a.waited_us + excluded.waited_us, took = sum_of_arrays(a.took, excluded.took), took_us = a.took_us + excluded.took_us
