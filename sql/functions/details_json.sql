-- Returns details as JSON; null if they are none, or nested too deeply for PostgreSQL. Applications may index it (docs/sql.md). It
-- is not safe in parallel plans: the block of the exception is a subtransaction.
create or replace function details_json(details text) returns jsonb language plpgsql immutable strict as $$
begin
  return case when details ~ '^[[:space:]]*[{[]' then details::jsonb end;
exception when data_exception or program_limit_exceeded or statement_too_complex then
  return null;
end $$;
