-- Creates the schema and the table of migrations, and locks that table, for which other starting managers wait, until
-- the transaction ends. If two create them at once, the second has waited for the first when it fails, and finds them
-- on its next try.
do $$ begin
  for tries in 1 .. 100 loop
    if to_regclass('reeve.schema_migrations') is not null then
      lock table reeve.schema_migrations in share row exclusive mode;
      return;
    end if;
    begin
      create schema if not exists reeve;
      create table if not exists reeve.schema_migrations (
        version int primary key,
        name text not null,
        applied timestamptz not null default clock_timestamp());
    exception when unique_violation or duplicate_schema or duplicate_table then
      null;
    end;
  end loop;
  raise exception 'the table reeve.schema_migrations comes and goes';
end $$;
set search_path = reeve
