-- Takes due callbacks for one call each: no other manager takes them until next_at. It takes only as many of each site
-- as there is room for, the longest due first. All sites with due ones get the same part of the free places, and those with the
-- fewest calls in flight come first, so that sites that hang do not keep the others waiting; then the one that has the longest
-- due one. It skips locked rows. A callback that was scheduled by a clock that was ahead is due when the manager's estimate of the time says so.
--   $1 how many in all; $2 how many of one site; $3 ms until they may be taken again; of the caller's calls in flight
--   $4 sites and $5 how many of each; $6 the manager's estimate of the time, null if it has none
with recursive sites as (
  (select c.site from callbacks c where c.state = 'waiting' order by c.site limit 1)
  union all
  select (select c.site from callbacks c where c.state = 'waiting' and c.site > s.site order by c.site limit 1)
  from sites s where s.site is not null),
 due as materialized (
  select s.site, least($2::int - coalesce(busy.n, 0), greatest($1::int / count(*) over (), 1)) as room
  from sites s left join unnest($4::text[], $5::int[]) busy(site, n) on busy.site = s.site
  cross join lateral (
    select c.next_at from callbacks c
    where c.state = 'waiting' and c.site = s.site and c.next_at <= greatest(statement_timestamp(), $6::timestamptz)
      and (c.next_at <= statement_timestamp() or c.next_set_at > statement_timestamp())
    order by c.next_at limit 1) d
  where coalesce(busy.n, 0) < $2::int
  order by coalesce(busy.n, 0), d.next_at),
 taken as materialized ( -- one site after the other, until there are enough: no more rows are locked than taken
  select c.id from due d
  cross join lateral (
    select c.id from callbacks c
    where c.state = 'waiting' and c.site = d.site and c.next_at <= greatest(statement_timestamp(), $6::timestamptz)
      and (c.next_at <= statement_timestamp() or c.next_set_at > statement_timestamp())
    order by c.next_at limit d.room for no key update skip locked) c
  limit $1::int)
update callbacks c set takes = c.takes + 1, next_at = clock_timestamp() + interval '1ms' * $3::bigint,
  next_set_at = clock_timestamp()
from taken t where c.id = t.id
returning c.id, c.batch_id, c.task_id, c.event, c.url, c.site, c.secret, c.payload, c.attempts + 1, c.takes
