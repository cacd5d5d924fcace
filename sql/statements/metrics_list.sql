-- Lists metrics by category and name; one more than requested shows that there are more.
-- takes ListMetricsRequest: category?, after_category, after_name, limit
-- gives ListMetricsResponse.metrics: category, name, value, integer, changed_us, updated_us, source
select category, name, value::float8, metric_integer(value), changed, updated, source from metrics
where ($1::text is null or category = $1) and (category, name) > ($2, $3)
order by category, name limit $4::bigint + 1
