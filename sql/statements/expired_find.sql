-- Attempts whose expiry has passed, found through the journal. Time is bounded by the manager's own reckoning, so that a
-- clock that has just jumped ahead ends nothing before the manager has noticed; and what was given out before the manager
-- noticed a jump (or began to watch) is left alone until it has itself seen the attempt's whole time go by. The last row,
-- without an id, says how far this came: the next_expiry of a journal row, its id, how many there were.
--   $1 how many journal rows to look into, $2 the manager's reckoning of now, $3 the newest journal row of before the
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
