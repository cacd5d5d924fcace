-- Returns attempts whose worker is lost, or has no row any more; but those of a pull client that was purged run until their
-- expiry. It starts from the open journal rows and runs
-- repeatedly without end, since a claim may be committed long after its worker was lost. A skip scan finds the workers
-- with open rows, one probe each; or only those are checked that have just been reported lost. They are checked in the
-- order of workers and journal rows, so that rows that another session has locked do not come again and again. The last
-- row has no id; it has the position up to which this came (the journal row and its worker), and how many rows there
-- were.
--   $1 how many journal rows to check, $2 of which workers, or null for all, $3 and $4 after which worker and journal
--   row
with recursive holder as (
  (select worker_id from assignments
   where $2::bigint[] is null and closed_at is null and worker_id > 0 and worker_id >= $3::bigint
   order by worker_id limit 1)
  union all
  select (select a.worker_id from assignments a where a.closed_at is null and a.worker_id > h.worker_id
    order by a.worker_id limit 1)
  from holder h where h.worker_id is not null),
 gone as materialized ( -- each has an open row; that of the first may lie before the start position
  select h.worker_id, w.name, w.hb_at
  from (
    select worker_id from holder where worker_id is not null
    union
    select u.id from unnest($2::bigint[]) u(id)
    cross join lateral (select from assignments where worker_id = u.id and closed_at is null limit 1) a
    where u.id >= $3::bigint) h
  left join lateral (select * from workers w where w.id = h.worker_id offset 0) w on true
  where coalesce(w.lost and not (w.manual and w.mode = 'draining'), true)
  order by h.worker_id limit $1::bigint + 1),
 due as materialized (
  select a.id, a.task_ids, g.worker_id, g.name, g.hb_at
  from gone g cross join lateral (
    select id, task_ids from assignments
    where worker_id = g.worker_id and closed_at is null and (g.worker_id > $3 or id > $4::bigint)
    order by id + 0 limit $1) a
  order by g.worker_id, a.id limit $1)
(select t.id, t.last_updated,
   format('its worker %s was lost; last heartbeat at %s', coalesce(d.name, '?'), coalesce(time_text(d.hb_at), 'unknown')) as reason,
   d.id as assignment_id, d.worker_id, null::bigint as journal_rows
 from due d
 left join lateral (
   select t.id, t.last_updated
   from unnest(d.task_ids) x(id)
   cross join lateral (
     select id, last_updated from tasks t
     where t.id = x.id and t.assignment_id = d.id and t.status = 'executing' offset 0) t
   offset 0) t on true
 order by t.id)
union all
(select null, null, null, id, worker_id, (select count(*) from due) from due order by worker_id desc, id desc limit 1)
