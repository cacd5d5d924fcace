-- Deletes from one page of replaced pipeline definitions, from a place on, those that no task has had for longer than
-- the history keeps any. A manual retry of a task marks its definition as used (retry_ended.sql). If the history kept tasks for
-- longer before, it may still have dead ones, which need their definition in a retry: then it stays for as long again. Returns
-- how many it deleted, and the page's end; null if there is no more.
--   $1 the retention in days, if no queue or manager has a longer one; the place: $2 unused, $3 id
with page as materialized (
  select p.id, p.unused_since, p.unused_xid,
    exists (select from tasks t where t.pipeline_id = p.id offset 0 limit 1) as live
  from pipelines p
  where p.replaced_at < statement_timestamp() - interval '1 hour' and p.id > $3 order by p.id limit 500),
 noted as (
  update pipelines p set unused_since = case when not page.live then statement_timestamp() end,
    unused_xid = case when not page.live then pg_current_xact_id() end
  from page where p.id = page.id and page.live = (page.unused_since is not null)),
 over as materialized (
  select p.id, exists (select from task_history h
    where h.status = 'dead' and h.last_updated <= p.unused_since and h.pipeline_id = p.id offset 0 limit 1) as needed
  from page
  cross join lateral (select id, unused_since, unused_xid from pipelines where id = page.id for update skip locked) p
  where not page.live and p.unused_since < statement_timestamp() - interval '1 day' * ((select longest_keep($1::int)) + 3)
    and (p.unused_xid < pg_snapshot_xmin(pg_current_snapshot()) or p.unused_xid >= pg_snapshot_xmax(pg_current_snapshot()))
    and not exists (
      select from (select id, task_ids from assignments where closed_at is null offset 0) a cross join lateral unnest(a.task_ids) x(id)
      cross join lateral (select restart from tasks t where t.id = x.id and t.assignment_id = a.id offset 0) t
      where (t.restart ->> 'pipeline_id')::bigint = page.id)),
 stay as (
  update pipelines p set unused_since = statement_timestamp(), unused_xid = pg_current_xact_id()
  where p.id = any(array(select id from over where needed))),
 gone as (
  delete from pipelines p where p.id = any(array(select id from over where not needed)) returning 1)
select (select count(*) from gone), $2::timestamptz, (select max(id) from page having count(*) = 500)
