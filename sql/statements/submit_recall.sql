-- Returns the answers of calls that came before. The fence makes this a commit, so that synchronous standbys have what
-- it returns. $1 request ids.
with fence as materialized (select pg_logical_emit_message(true, 'reeve', 'fence') as lsn)
select u.n, r.task_ids, r.existing, r.kind, (select lsn from fence), r.restarted
from unnest($1::uuid[]) with ordinality u(id, n) join requests r on r.id = any(array[u.id])
