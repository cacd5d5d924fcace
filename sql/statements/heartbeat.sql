-- Renews leases. An incarnation that is lost, or has sent a newer heartbeat, is not in the answer.
-- $1 incarnations, in order, $2 their sequence numbers.
update workers w set hb_seq = u.seq, hb_at = clock_timestamp()
from unnest($1::bigint[], $2::bigint[]) u(id, seq)
where w.id = any(array[u.id]) and not w.lost and w.hb_seq < u.seq
returning w.id
