-- Retires the routes without tasks in one page of routes, from a place on. Returns how many, and the page's end; null
-- if there is no more. $1 unused; the place: $2 unused, $3 id
select gone, $2::timestamptz, last from routes_retire($3::bigint) where $1::int is not null
