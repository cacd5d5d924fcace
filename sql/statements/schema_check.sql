-- Fails if the version of the schema is not that of the setting reeve.schema_from (0: no objects yet).
do $check$
declare
  present int := (select coalesce(max(version), 0) from reeve.schema_migrations);
  wanted int := current_setting('reeve.schema_from');
begin
  if present <> wanted then
    raise exception 'this is for a schema of version %, and it is %', wanted, present;
  end if;
end $check$
