-- Keeps what handlers remark while they run ("": nothing any more), each under its attempt's token. What somebody has locked is left out: the next remark
-- comes, or the end of the attempt, which has the last. Nobody's claim or end is touched: a remark is neither indexed nor part of the
-- lock.
--   one element a remark, of those of one task the last counts: $1 ids, $2 tokens, $3 remarks
with said as materialized (
  select distinct on (id) id, token, remark
  from unnest($1::bigint[], $2::timestamptz[], $3::text[]) with ordinality u(id, token, remark, place)
  order by id, place desc),
 free as materialized (
  select s.*
  from said s
  cross join lateral (
    select from tasks t where t.id = s.id and t.last_updated = s.token offset 0 for no key update skip locked) t)
update tasks t set remark = nullif(f.remark, '')
from free f
where t.id = any(array[f.id]) and t.last_updated = f.token and t.status = 'executing' and coalesce(t.remark, '') <> f.remark
