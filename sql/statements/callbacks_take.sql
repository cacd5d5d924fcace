-- Takes callbacks that are due, for one try: nobody else takes them until next_at. Of each site only so many as have room,
-- the longest due first. $1 how many in all; $2 how many of one site; $3 ms until they may be taken again; of those that
-- the caller has under way $4 sites and $5 how many of each.
with recursive sites as (
  (select c.site from callbacks c where c.state = 'waiting' order by c.site limit 1)
  union all
  select (select c.site from callbacks c where c.state = 'waiting' and c.site > s.site order by c.site limit 1)
  from sites s where s.site is not null),
 due as (
  select d.id from sites s left join unnest($4::text[], $5::int[]) busy(site, n) on busy.site = s.site
  cross join lateral (
    select c.id, c.next_at from callbacks c
    where c.state = 'waiting' and c.site = s.site and c.next_at <= statement_timestamp()
    order by c.next_at limit greatest($2::int - coalesce(busy.n, 0), 0)) d
  order by d.next_at limit $1::int),
 taken as (
  select c.id from callbacks c
  where c.id = any(array(select id from due)) and c.state = 'waiting' and c.next_at <= statement_timestamp()
  order by c.id for no key update skip locked)
update callbacks c set attempts = c.attempts + 1, next_at = clock_timestamp() + interval '1ms' * $3::bigint
from taken t where c.id = t.id
returning c.id, c.batch_id, c.task_id, c.event, c.url, c.site, c.secret, c.payload, c.attempts
