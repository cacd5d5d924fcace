-- Returns attempts whose expiry has passed, found through the journal. The time is limited by the manager's own
-- estimate, so that a clock that has just jumped ahead ends nothing before the manager has noticed. Tasks that were
-- assigned before the manager noticed a jump (or began to watch) are left alone until it has watched for the attempt's
-- full time. The last row has no id; it has the position up to which this came (the next_expiry of a journal row and
-- its id), and how many rows there were.
--   $1 how many journal rows to check, $2 the manager's estimate of now, $3 the newest journal row from before the
--   jump, $4 how long it has watched since, in ms, $5 and $6 after which next_expiry and journal row
with due as materialized (
  select id, task_ids, next_expiry from assignments
  where closed_at is null and next_expiry <= least(statement_timestamp(), $2)
    and (next_expiry, id) > ($5::timestamptz, $6::bigint)
    and (id > $3 or interval '1ms' * $4::bigint >= next_expiry - at)
  order by next_expiry, id limit $1)
(select t.id, t.last_updated, null::bigint as assignment_id, null::bigint as journal_rows
 from due d cross join unnest(d.task_ids) x(id)
 cross join lateral (
   select id, last_updated from tasks t
   where t.id = x.id and t.assignment_id = d.id and t.status = 'executing'
     and t.expiry <= least(statement_timestamp(), $2)
     and (d.id > $3 or interval '1ms' * $4::bigint >= greatest(t.expiry - t.last_updated, interval '1ms' * t.timeout_ms))
   offset 0) t
 order by t.id)
union all
(select null, next_expiry, id, (select count(*) from due) from due order by next_expiry desc, id desc limit 1)
