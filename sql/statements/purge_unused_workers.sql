-- Deletes from one page of incarnations that have been gone for a day, from a place on, those that never got a task,
-- since any client may register as often as it likes. The journal has no index for that: the rows of the time in which
-- the incarnations lived are read; the ids of these rows are found by bisection as in submitted_after(). If there are
-- too many rows, the page is left to purge_workers, and so are incarnations that lived for longer than an hour. (After
-- a clock change an incarnation may be taken for unused: then the audit shows an old event without its worker's name.)
-- Returns how many, and the page's end; null if there is no more. ORDER BY keeps each search for an open row to its
-- index, however few workers the journal's rows belong to.
--   $1 unused; the place: $2 gone_at, $3 id
with recursive page as materialized (
  select id, registered, gone_at, lost and completed + failed = 0 and gone_at < registered + interval '1 hour' as unused
  from workers where gone_at < statement_timestamp() - interval '1 day' and (gone_at, id) > ($2, $3)
  order by gone_at, id limit 1000),
 span as materialized (
  select min(registered) - interval '1 minute' as since, max(gone_at) + interval '1 minute' as until from page where unused),
 edges as (
  select n, case n when 1 then since else until end as moment, low, high
  from span, generate_series(1, 2) n, (select min(id) - 1 as low, max(id) + 1 as high from assignments) a
  where since is not null
  union all
  select n, moment, case when a.at < moment then a.id else low end, case when a.at < moment then high else middle end
  from (select *, low + (high - low) / 2 as middle from edges where high - low > 1) e
  cross join lateral (select id, at from assignments where id >= middle order by id limit 1) a),
 journal as materialized (
  select worker_id from assignments
  where id >= (select min(high) from edges where n = 1) and id < (select min(high) from edges where n = 2) limit 100000),
 gone as (
  delete from workers where id = any(array(
    select id from page p
    where unused and (select count(*) from journal) < 100000 and id not in (select worker_id from journal)
      and not exists (select from assignments a where a.worker_id = p.id and a.closed_at is null
        order by a.fetch_id offset 0 limit 1)))
  returning 1)
select (select count(*) from gone), p.gone_at, p.id
from (select count(*) as n from page where $1::int is not null) x
left join lateral (select gone_at, id from page where x.n = 1000 order by gone_at desc, id desc limit 1) p on true
