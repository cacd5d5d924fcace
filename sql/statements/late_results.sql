-- Checks reports that matched no lock: did an earlier copy of the same report end the attempt? If not, the lock was
-- lost, or the attempt is one of another identity's workers. The audit records either once for each attempt that existed.
-- Reads what the statements before it could not see; therefore it is a separate statement. If it reports an earlier commit,
-- the fence makes the transaction a commit of its own, so that synchronous standbys have both.
--   one element per report: $1 ids, $2 tokens, $3 outcomes, $4 the reporting worker's incarnation or 0, $5 the reporting
--   identity, null for an admin, $6 the caller
with fence as materialized (select pg_logical_emit_message(true, 'reeve', 'fence') as lsn),
 checked as materialized (
  select u.n, u.id, u.token, u.outcome, u.incarnation, u.actor, a.by_report,
    u.identity is null or coalesce((select w.identity = u.identity from workers w where w.id = a.worker_id), false) as own,
    a.worker_id is not null as existed, exists (select from all_tasks t where t.id = u.id) as known
  from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::bigint[], $5::bigint[], $6::text[]) with ordinality
    u(id, token, outcome, incarnation, identity, actor, n)
  left join lateral (
    select x.by_report, x.worker_id
    from (select h.by_report, h.worker_id from task_history h where h.task_id = u.id and h.token = u.token
      union all
      select a.by_report, a.worker_id from task_attempts a where a.task_id = u.id and a.token = u.token
      union all
      select null, t.worker_id from tasks t where t.id = u.id and t.last_updated = u.token and t.status = 'executing') x limit 1) a on true),
 events as (
  insert into task_events (task_id, version, event, actor, worker_id, note)
  select distinct on (id, token, event) id, token, event, actor, nullif(incarnation, 0),
    outcome || case when own then ' reported after the lock was lost' else ' reported by a caller that does not hold the attempt' end
      || '; nothing changed'
  from (select *, case when own then 'late_result' else 'result_refused' end as event from checked) l
  where (not by_report or existed and not own)
    and (select true from task_events e where e.task_id = l.id and e.version = l.token and e.event = l.event) is null
  order by id, token, event, n
  on conflict (task_id, version, event) where event in ('late_result', 'result_refused') do nothing)
select n, coalesce(by_report and own, false) as reported, known, case when by_report and own then (select lsn from fence) end
from checked order by n
