-- Sets metrics.
-- takes PutMetricsRequest: metrics[].category, metrics[].name, metrics[].value, @actor
-- gives PutMetricsResponse: at_us
select metrics_put($1::text[], $2::text[], $3::float8[], $4::text)
