-- Before a submit with keys: deletes those of its keys whose lifetime is over. (COALESCE, so that the index of all keys
-- by expiry is not scanned.) $1 queues, $2 keys.
delete from keys k
using (select distinct queue, key from unnest($1::text[], $2::text[]) u(queue, key) order by queue, key) u
where k.queue = any(array[u.queue]) and k.key = any(array[u.key]) and coalesce(k.expires_at, 'infinity') <= clock_timestamp()
