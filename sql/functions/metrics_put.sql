-- Sets metrics of applications; of a metric that is set twice, the last value counts. Raises RV429 if there would be
-- more than LIMIT_METRICS. Of concurrent calls, the one that gets the row lock last wins, and has the later time. Returns the
-- time.
create or replace function metrics_put(in_categories text[], in_names text[], new_values float8[], by text) returns timestamptz
language plpgsql as $$
#variable_conflict use_column
declare
  made bigint;
begin
  with put as (
    insert into metrics as m (category, name, value, source)
    select distinct on (category, name) category, name, value, by
    from unnest(in_categories, in_names, new_values) with ordinality u(category, name, value, n)
    order by category, name, n desc
    on conflict (category, name) do update set value = excluded.value, source = excluded.source,
      updated = greatest(clock_timestamp(), m.updated),
      changed = case when m.value = excluded.value then m.changed else greatest(clock_timestamp(), m.updated) end
    returning m.xmax = 0 as made)
  select count(*) filter (where put.made) into made from put;
  if made > 0 then
    perform from locks where name = 'metrics' for no key update; -- counts what others have created once it is committed
    if (select count(*) from metrics where manager_id is null) > LIMIT_METRICS then
      raise exception using errcode = 'RV429',
        message = 'there are LIMIT_METRICS metrics already, as many as there may be; no further names are taken';
    end if;
  end if;
  return clock_timestamp();
end $$;
