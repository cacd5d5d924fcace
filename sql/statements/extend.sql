-- Extends attempts, each under its token, up to the maximum runtime from its claim. An attempt that is over, or
-- another's, is not in the answer; one that another session has locked is, with nulls. The time of one that already had
-- more is 0. This does not affect claims and ends: expiry is neither indexed nor part of the lock.
--   one element per attempt, in id order: $1 ids, $2 tokens, $3 how much longer it may run, in ms; $4 the maximum
--   runtime of the attempt in ms, $5 the expiry grace in ms, which it has after that; its worker's lease if that is
--   longer
with asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::bigint[]) u(id, token, run_ms)),
 given as materialized (
  select u.id, u.token, clock_timestamp() as at,
    least(clock_timestamp() + interval '1ms' * u.run_ms, u.token + interval '1ms' * $4::bigint) as until,
    interval '1ms' * greatest($5::bigint,
      (select case when manual then 0 else lease_ms end from workers w where w.id = t.worker_id)) as grace
  from asked u
  cross join lateral (
    select t.worker_id from tasks t where t.id = u.id and t.last_updated = u.token offset 0 for no key update skip locked) t),
 extended as (
 update tasks t set expiry = greatest(t.expiry, g.until + g.grace)
from given g
where t.id = any(array[g.id]) and t.last_updated = g.token and t.status = 'executing'
returning t.id, t.last_updated,
  case when t.expiry > g.until + g.grace then 0 else (extract(epoch from g.until - g.at) * 1000)::bigint end as run_ms,
  (extract(epoch from t.expiry - g.at) * 1000)::bigint as expires_in_ms)
select id, last_updated, run_ms, expires_in_ms from extended
union all
select a.id, a.token, null, null
from asked a
cross join lateral (
  select from tasks t where t.id = a.id and t.last_updated = a.token and t.status = 'executing' offset 0) t
where not exists (select from extended e where e.id = a.id and e.last_updated = a.token)
