-- Sets metrics. One element per metric: $1 categories, $2 names, $3 values as text; $4 the actor, $5 the maximum number
-- of metrics.
select metrics_put($1::text[], $2::text[], $3::text[]::float8[], $4, $5::int)
