-- Sets metrics of applications; of a metric that is set twice, the last value counts. Of concurrent calls, the one that
-- gets the row lock last wins, and has the later time. Returns the time. `change`: an array of {"category", "name",
-- "value"}.
create or replace function metrics_put(change jsonb, by text) returns timestamptz language plpgsql as $$
#variable_conflict use_column
declare
  made bigint;
begin
  with put as (
    insert into metrics as m (category, name, value, source)
    select distinct on (category, name) category, name, metric_number(value), by
    from jsonb_array_elements(change) with ordinality e(metric, n)
    cross join lateral jsonb_to_record(metric) as r(category text, name text, value numeric)
    order by category, name, n desc
    on conflict (category, name) do update set value = excluded.value, source = excluded.source,
      updated = greatest(clock_timestamp(), m.updated),
      changed = case when m.value = excluded.value then m.changed else greatest(clock_timestamp(), m.updated) end
    returning m.xmax = 0 as made)
  select count(*) filter (where put.made) into made from put;
  perform metrics_limit(made);
  return clock_timestamp();
end $$;
