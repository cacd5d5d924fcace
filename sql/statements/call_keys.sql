-- Returns the request ids that idempotency keys of calls stand for, and whether their first calls had the same request. The
-- update changes nothing: it locks the row and makes this a commit, so that synchronous standbys have what it returns.
-- $1 the hashes of keys, $2 a request id for each that is new, $3 the hashes of the requests
with given as materialized (
  select * from unnest($1::uuid[], $2::uuid[], $3::uuid[]) with ordinality u(key, request_id, request, n)),
 taken as (
  insert into call_keys (key, request_id, request)
  select distinct on (key) key, request_id, request from given order by key, n
  on conflict (key) do update set key = excluded.key
  returning key, request_id, request)
select t.request_id, t.request = g.request from given g join taken t using (key) order by g.n
