-- Adds to metrics.
-- takes AddMetricsRequest: @request_id, @change, @actor
-- gives AddMetricsResponse.metrics: category, name, value, integer, changed_us, updated_us, source
select category, name, value::float8, metric_integer(value), changed, updated, source
from metrics_add($1::uuid, $2::text::jsonb, $3::text)
