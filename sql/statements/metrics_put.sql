-- Sets metrics.
-- takes PutMetricsRequest: @change, @actor
-- gives PutMetricsResponse: at_us
select metrics_put($1::text::jsonb, $2::text)
