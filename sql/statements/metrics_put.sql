-- Puts metrics. One element a metric: $1 categories, $2 names, $3 values as text; $4 who, $5 how many there may be.
select metrics_put($1::text[], $2::text[], $3::text[]::float8[], $4, $5::int)
