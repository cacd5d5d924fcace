-- Deletes old closed rows from one page of the journal, from a place on. Returns how many, and the page's end; null
-- where rows begin that are not that old. $1 the retention in days, if no queue or manager has a longer one; the place:
-- $2 unused, $3 id
with page as materialized (
  select id, at, closed_at from assignments where id > $3 order by id limit 5000),
 over as (
  select statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 1) as before),
 gone as (
  delete from assignments where id = any(array(select id from page, over where closed_at < before)) returning 1)
select (select count(*) from gone), $2::timestamptz, (
  select max(id) from page, over having count(*) = 5000 and bool_and(at < before))
