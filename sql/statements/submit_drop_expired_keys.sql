-- Before a submit with keys: forgets those of its keys whose lifetime is over. $1 queues, $2 keys.
delete from keys k
using (select distinct queue, key from unnest($1::text[], $2::text[]) u(queue, key) order by queue, key) u
where k.queue = any(array[u.queue]) and k.key = any(array[u.key]) and k.expires_at <= clock_timestamp()
