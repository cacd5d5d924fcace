-- Adds to metrics of applications; those that do not exist begin with 0. Returns them. `change`: an array of {"category",
-- "name", "value"}. The rows are locked in the order of metrics_put.
create or replace function metrics_add(request uuid, change jsonb, by text) returns setof metrics language plpgsql as $$
#variable_conflict use_column
declare
  part record;
  made bigint := 0;
  is_new boolean;
begin
  if batch_request(request, 'metric_add', 0) is null then
    for part in
      select r.* from jsonb_array_elements(change) with ordinality e(metric, n)
      cross join lateral jsonb_to_record(metric) as r(category text, name text, value numeric)
      order by category, name, n
    loop
      insert into metrics as m (category, name, value, source)
      values (part.category, part.name, metric_number(part.value), by)
      on conflict (category, name) do update set value = metric_sum(m.value, excluded.value, m.category, m.name),
        source = excluded.source, updated = greatest(clock_timestamp(), m.updated),
        changed = case when excluded.value = 0 then m.changed else greatest(clock_timestamp(), m.updated) end
      returning m.xmax = 0 into is_new;
      made := made + is_new::int;
    end loop;
    perform metrics_limit(made);
  end if;
  return query
    select m.* from metrics m
    where (m.category, m.name) in (select c.category, c.name from jsonb_to_recordset(change) as c(category text, name text))
    order by m.category, m.name;
end $$;
