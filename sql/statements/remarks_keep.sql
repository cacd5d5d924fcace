-- Stores remarks of running handlers ("" removes one), each under its attempt's token. Rows that another session has
-- locked are left out: the next remark, or the end of the attempt, has the latest one. This does not affect claims and
-- ends: a remark is neither indexed nor part of the lock.
--   one element per remark, of those of one task the last counts: $1 ids, $2 tokens, $3 remarks,
--   $4 the workers that send them: others' attempts are left out
with latest as materialized (
  select distinct on (id) id, token, remark, worker
  from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::bigint[]) with ordinality u(id, token, remark, worker, place)
  order by id, place desc),
 free as materialized (
  select s.*
  from latest s
  cross join lateral (
    select from tasks t where t.id = s.id and t.last_updated = s.token and t.worker_id = s.worker offset 0 for no key update skip locked) t)
update tasks t set remark = nullif(f.remark, '')
from free f
where t.id = any(array[f.id]) and t.last_updated = f.token and t.status = 'executing' and coalesce(t.remark, '') <> f.remark
