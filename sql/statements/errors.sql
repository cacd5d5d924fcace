-- Returns errors since a time, in groups: one page (errors_page); the latest come on the first page. The last row has
-- no error; its next_page is where the next page begins.
-- takes ErrorsRequest: by, queue?, type?, since_us, page?, @max_scanned, @max_bytes
-- gives ErrorsResponse.groups: error, error_code, attempts, waiting, dead, first_us, last_us, example_id, .next_page
with found as materialized (select * from errors_page($2, $3, $4, $5, $6::bigint::int, $7::bigint))
(select (array_agg(error order by latest desc))[1] as error, (array_agg(code order by latest desc))[1] as error_code,
  sum(attempts)::bigint as attempts, sum(waiting)::bigint as waiting, sum(dead)::bigint as dead, min(first) as first,
  max(last) as last, (max(latest))[2] as example_id, null::text as next_page
from found
where error is not null
group by case when $1::text = 'code' then code else error end
order by attempts desc, dead desc, last desc, error)
union all
select null, null, null, null, null, null, null, null, next_page from found where error is null
