-- Returns details as JSON; null if they are none. Applications may index it (docs/sql.md).
create or replace function details_json(details text) returns jsonb language plpgsql immutable strict parallel safe as $$
begin
  return case when details ~ '^[[:space:]]*[{[]' then details::jsonb end;
exception when data_exception then
  return null;
end $$;
