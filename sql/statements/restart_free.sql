-- After restart_mark, in the same transaction: ends the attempts of pull clients, which take no commands.
--   one element per attempt: $1 ids, $2 tokens; $3 the retention in days if their queue does not set it
select id, version, due, route_id, priority, becomes
from attempts_end($1::bigint[], $2::timestamptz[], array(select 'cancelled'::text from unnest($1)), null, null, false, $3::int,
  null, null, null, null, null)
