-- Returns whether the member at each of the paths, "order.user", of details that are JSON has the wanted value, as text.
create or replace function details_match(details text, paths text[], wanted text[]) returns boolean language sql immutable as $$
  select bool_and(coalesce(d.parsed #>> string_to_array(u.path, '.') = u.value, false))
  from (select details_json(details) as parsed offset 0) d cross join unnest(paths, wanted) u(path, value)
$$;
