-- Checks reports that matched no lock: did an earlier copy of the same report end the attempt? If not, the lock was
-- lost, which the audit records once for each attempt that existed. Reads what the statements before it could not see;
-- therefore it is a separate statement. If it reports an earlier commit, the fence makes the transaction a commit of
-- its own, so that synchronous standbys have both.
--   one element per report: $1 ids, $2 tokens, $3 outcomes, $4 the reporting worker's incarnation or 0
with fence as materialized (select pg_logical_emit_message(true, 'reeve', 'fence') as lsn),
 looked as materialized (
  select u.n, u.id, u.token, u.outcome, u.incarnation,
    coalesce((select h.by_report from task_history h where h.task_id = u.id and h.token = u.token),
      (select a.by_report from task_attempts a where a.task_id = u.id and a.token = u.token)) as by_report,
    exists (select from all_tasks t where t.id = u.id) as known
  from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::bigint[]) with ordinality
    u(id, token, outcome, incarnation, n)),
 events as (
  insert into task_events (task_id, version, event, worker_id, note)
  select distinct on (id, token) id, token, 'late_result', nullif(incarnation, 0),
    outcome || ' reported after the lock was lost; nothing changed'
  from looked l
  where not by_report
    and (select true from task_events e where e.task_id = l.id and e.version = l.token and e.event = 'late_result') is null
  order by id, token, n
  on conflict (task_id, version) where event = 'late_result' do nothing)
select n, coalesce(by_report, false) as reported, known, case when by_report then (select lsn from fence) end
from looked order by n
